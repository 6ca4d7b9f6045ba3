"""The checks of many things at once, when NumPy and PyArrow are there to make them."""

from __future__ import annotations

from importlib import util
from types import ModuleType

__all__ = ["bulk_checks", "is_bulk_possible"]

_NEEDED = ("numpy", "pyarrow")


def is_bulk_possible() -> bool:
    """Whether the extra `export` is there; without it everything is looked at by itself."""
    return all(map(util.find_spec, _NEEDED))


def bulk_checks() -> ModuleType | None:
    """`codec.scan.checks`; None where it is not possible."""
    if not is_bulk_possible():
        return None
    from codec.scan import checks as found

    return found
