"""Which names of Python's modules a system lacks, by typeshed's stubs, which mypy installs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

BODIES = (ast.If, ast.Try, ast.With)


@cache
def declared(module: str, platform: str) -> frozenset[str]:
    """Return the names that a module has on a platform (a value of sys.platform)."""
    spec = find_spec("mypy")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "typeshed" / "stdlib"
    path = next(
        path for path in (folder / f"{module}.pyi", folder / module / "__init__.pyi") if path.exists()
    )
    return frozenset(_names(ast.parse(path.read_text()).body, platform))


def lacking(module: str, platform: str) -> set[str]:
    """Return the names of a module on Linux that a platform lacks."""
    return set(declared(module, "linux") - declared(module, platform))


def _names(statements: list[ast.stmt], platform: str) -> Iterator[str]:
    for one in statements:
        if isinstance(one, ast.If):
            yield from _names(one.body if _holds(one.test, platform) else one.orelse, platform)
        elif isinstance(one, ast.FunctionDef | ast.ClassDef):
            yield one.name
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id
        elif isinstance(one, ast.Assign):
            yield from (target.id for target in one.targets if isinstance(target, ast.Name))
        elif isinstance(one, ast.ImportFrom):
            yield from (name.asname or name.name for name in one.names)


def _holds(test: ast.expr, platform: str) -> bool:
    """Evaluate a condition of a stub: of sys.platform and sys.version_info, and nothing else."""

    class System:
        version_info = sys.version_info

    System.platform = platform  # type: ignore[attr-defined]
    return bool(eval(compile(ast.Expression(test), "stub", "eval"), {"sys": System, "TYPE_CHECKING": True}))
