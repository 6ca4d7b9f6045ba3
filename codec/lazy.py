"""Packages whose public names are imported when they are first asked for (PEP 562).

A command line that needs three of two hundred classes should not build the rest. The package imports its names under
`TYPE_CHECKING` for type checkers and gives `lazy_names` the same names by module; a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from sys import modules
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """A module `__getattr__` for `package`: `homes` says which names each module has."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(modules[package], name, value)
        return value

    return find
