"""The checks of many things at once, when NumPy is there to make them."""

from __future__ import annotations

from types import ModuleType

__all__ = ["bulk_checks"]


def bulk_checks() -> ModuleType | None:
    """`rmqcli.store.bulk_checks`; None without the extra `export`: then everything is looked at by itself."""
    try:
        from rmqcli.store import bulk_checks as found
    except ImportError:
        return None
    return found
