"""The checks of many things at once, when NumPy and PyArrow are there to make them."""

from __future__ import annotations

from importlib import util
from types import ModuleType

__all__ = ["bulk_checks"]

_NEEDED = ("numpy", "pyarrow")


def bulk_checks() -> ModuleType | None:
    """`rmqcli.store.bulk_checks`; None without the extra `export`: then everything is looked at by itself."""
    if not all(map(util.find_spec, _NEEDED)):
        return None
    from rmqcli.store import bulk_checks as found

    return found
