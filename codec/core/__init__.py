"""Code that handles every byte of every message: plain typed functions, compiled by mypyc if there is a
compiler.

* Uncompiled, the modules run as they are. With RMQ_PURE=1 in the environment, they do so even if compiled.
* `i64` and `i32` are C integers once compiled; the readers and writers of `librt.strings` have a fixed width.
* Layouts are declared elsewhere, with construct. Offsets and widths are read from the declarations at import.
* A function checks the bounds of its arguments before it reads; nothing here does I/O or waits.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path

_FOLDER = Path(__file__).parent


class _Sources:
    """Finder for the sources of this package. Python itself would prefer a compiled module next to them."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of this package, or None for any other."""
        package, _, module = name.rpartition(".")
        return spec_from_file_location(name, _FOLDER / f"{module}.py") if package == __name__ else None


if os.environ.get("RMQ_PURE") == "1":
    sys.meta_path.insert(0, _Sources)


def is_compiled() -> bool:
    """Return True if the compiled modules are in use."""
    spec = find_spec("rmqcli.codec.core.hashing")
    return spec is not None and not str(spec.origin).endswith(".py")
