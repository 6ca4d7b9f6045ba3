"""Packages that import their public names on first use (PEP 562).

A package lists its names once, as imports that type checkers read, and derives the rest from them:

    if TYPE_CHECKING:
        from package.module import Name as Name
    else:
        __all__, __getattr__ = lazy_names(__name__)
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from linecache import getlines
from sys import modules
from typing import Any


def lazy_names(package: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return `__all__` and the module `__getattr__` of `package`, from the imports below its `if
    TYPE_CHECKING`.

    Raises ImportError if the source of the package is missing.
    """
    module = modules[package]
    source = "".join(getlines(module.__file__ or "", vars(module)))
    if not source:
        raise ImportError(f"the source of {package} is missing")
    home_of = _homes(source)

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        # Python does not call `__getattr__` for a name that the module has.
        setattr(modules[package], name, value)
        return value

    return sorted(home_of), find


def _homes(source: str) -> dict[str, str]:
    """Return the module of each name, from the imports in the first `if` of a module."""
    guarded = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = (node for node in guarded.body if isinstance(node, ast.ImportFrom))
    return {alias.name: node.module or "" for node in imports for alias in node.names}
