"""The choice between reading store files with NumPy, many records at a time, and record by record.

NumPy and PyArrow come with the extra `export`. The results are the same without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import util

_NEEDED = ("numpy", "pyarrow")
_SETTINGS: ContextVar[tuple[bool, int]] = ContextVar("vectorised", default=(True, 1 << 14))


def is_vectorised() -> bool:
    """Return True if the packages of the extra `export` are installed, unless `vectorising` disables them."""
    return _SETTINGS.get()[0] and _are_installed()


@cache
def _are_installed() -> bool:
    return all(map(util.find_spec, _NEEDED))


def block_records() -> int:
    return _SETTINGS.get()[1]


@contextmanager
def vectorising(*, enabled: bool = True, block_records: int = 1 << 14) -> Iterator[None]:
    """Set, within the block, whether files are read many records at a time, and how many. Used by tests."""
    token = _SETTINGS.set((enabled, block_records))
    try:
        yield
    finally:
        _SETTINGS.reset(token)
