"""Which lines of the packages the tests run: with `RMQ_LINES=1` each module has a mark before every statement.

The tracing of Python, by which coverage measures before Python 3.12, doubles the time of all Python code. The
marks take a tenth of the time of the packages and nothing elsewhere, so that every test is measured. What they
find is a file of coverage, which reports it. A header of `except` or `case` is marked when its block runs.
"""

from __future__ import annotations

import ast
import importlib
import marshal
import os
import sys
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType, ModuleType

from coverage import CoverageData

PACKAGES = ("codec", "broker", "rmqcli")
ROOT = Path(__file__).parents[1]
COMPILED = ROOT / ".coverage-compiled"
"""Bytecode with marks; each file is named by what it is made of."""
MARKS = "_lines_that_ran"
"""The variable of a module: a 1 for each line that ran."""
BLOCKS = ("body", "orelse", "finalbody")

_ran: dict[str, list[int]] = {}
_RULES = Path(__file__).read_bytes()


def is_wanted() -> bool:
    return os.environ.get("RMQ_LINES") == "1"


def begin() -> None:
    """Marks the modules that are imported from now on, and anew the few that pytest has imported."""
    COMPILED.mkdir(exist_ok=True)
    sys.meta_path.insert(0, _Finder())
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        importlib.reload(sys.modules[name])


def lines_of(path: str) -> list[int]:
    """Returns the marked lines of a file that ran."""
    return [number for number, ran in enumerate(_ran[path]) if ran]


def save(suffix: str) -> None:
    """Writes a file that coverage combines with those of other processes."""
    data = CoverageData(basename=str(ROOT / ".coverage"), suffix=suffix)
    data.add_lines({path: lines_of(path) for path in list(_ran)})
    data.touch_files([str(path) for package in PACKAGES for path in (ROOT / package).rglob("*.py")])
    data.write()


def marked(source: bytes) -> ast.Module:
    """Returns the tree of a module with a mark before each statement."""
    tree = ast.parse(source)
    for node in list(ast.walk(tree)):
        for name in BLOCKS:
            if isinstance(block := getattr(node, name, None), list):
                setattr(node, name, _marked_block(node, block))
    return ast.fix_missing_locations(tree)


def _marked_block(parent: ast.AST, block: Sequence[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    waiting = _header(parent)
    for statement in block:
        waiting += _lines(statement)
        if not _must_be_first(statement):
            found += _marks(waiting, statement)
            waiting = []
        found.append(statement)
    return found + _marks(waiting, block[-1]) if block else found


def _must_be_first(statement: ast.stmt) -> bool:
    """Docstrings and imports from __future__ come before any mark."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _header(parent: ast.AST) -> list[int]:
    if isinstance(parent, ast.ExceptHandler):
        return [parent.lineno]
    return [parent.pattern.lineno] if isinstance(parent, ast.match_case) else []


def _lines(statement: ast.stmt) -> list[int]:
    decorators: Iterable[ast.expr] = getattr(statement, "decorator_list", ())
    return [*(decorator.lineno for decorator in decorators), statement.lineno]


def _marks(lines: Iterable[int], place: ast.stmt) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for line in lines:
        target = ast.Subscript(ast.Name(MARKS, ast.Load()), ast.Constant(line), ast.Store())
        found.append(ast.copy_location(ast.Assign([target], ast.Constant(1)), place))
    return found


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Marking(fullname, spec.loader.path)
        return spec


class Marking(SourceFileLoader):
    """Imports a module with marks."""

    def exec_module(self, module: ModuleType) -> None:
        lines = self.get_data(self.path).count(b"\n") + 2
        vars(module)[MARKS] = _ran.setdefault(self.path, [0] * lines)
        super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        parts = (MAGIC_NUMBER, _RULES, self.path.encode(), source)
        kept = COMPILED / blake2b(b"\0".join(parts), digest_size=20).hexdigest()
        if kept.exists():
            code: CodeType = marshal.loads(kept.read_bytes())
            return code
        code = compile(marked(source), self.path, "exec", dont_inherit=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(marshal.dumps(code))
        unfinished.replace(kept)
        return code
