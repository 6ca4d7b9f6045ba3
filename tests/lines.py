"""Which lines of the packages the tests run: with `RMQ_LINES=1` each module marks its statements.

The tracing of Python, by which coverage measures before Python 3.12, doubles the time of all Python code. The
marks take a tenth of the time of the packages and nothing elsewhere, so that every test is measured. What they
find is a file of coverage, which reports it. A header of `except` or `case` is marked when its block runs. A run of
statements that hold no block has one mark, before its last one: where a statement raises, those before it in the
same run count as not run.
"""

from __future__ import annotations

import ast
import importlib
import marshal
import os
import sys
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from importlib.abc import FileLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType, ModuleType

from coverage import CoverageData

PACKAGES = ("codec", "broker", "rmqcli")
"""Folders; the first two are imported by their links in the third."""
ROOT = Path(__file__).parents[1]
COMPILED = ROOT / ".coverage-compiled"
"""Bytecode with marks; each file is named by what it is made of."""
MARKS = "_lines_that_ran"
"""The variable of a module: a 1 for each run of statements whose last one was reached."""
BLOCKS = ("body", "orelse", "finalbody")

_ran: dict[str, list[int]] = {}
_runs: dict[str, list[list[int]]] = {}
_RULES = Path(__file__).read_bytes()


def is_wanted() -> bool:
    return os.environ.get("RMQ_LINES") == "1"


def begin() -> None:
    """Marks the modules that are imported from now on, and anew the few that pytest has imported."""
    COMPILED.mkdir(exist_ok=True)
    importlib.import_module("rmqcli.codec.core")
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "rmqcli"]:
        importlib.reload(sys.modules[name])
    # With RMQ_PURE=1 rmqcli.codec.core has put a finder of its sources first.
    sys.meta_path.remove(finder)
    sys.meta_path.insert(0, finder)


def lines_of(path: str) -> list[int]:
    """Returns the marked lines of a file that ran."""
    return sorted({line for run, ran in zip(_runs[path], _ran[path], strict=True) if ran for line in run})


def all_lines() -> dict[str, int]:
    """Returns the number of lines that can be marked, by file, of all modules."""
    found = {}
    for path in (str(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        _, runs = Marking(path, path).compiled()
        found[path] = len({line for run in runs for line in run})
    return found


def save(suffix: str) -> None:
    """Writes a file that coverage combines with those of other processes."""
    data = CoverageData(basename=str(ROOT / ".coverage"), suffix=suffix)
    data.add_lines({path: lines_of(path) for path in list(_ran)})
    data.touch_files([str(path) for package in PACKAGES for path in (ROOT / package).rglob("*.py")])
    data.write()


def marked(source: bytes) -> tuple[ast.Module, list[list[int]]]:
    """Returns the tree of a module with its marks, and the lines that each mark stands for."""
    tree = ast.parse(source)
    runs: list[list[int]] = []
    for node in list(ast.walk(tree)):
        for name in BLOCKS:
            if name == "body" and _is_for_types(node):
                continue
            if isinstance(block := getattr(node, name, None), list):
                setattr(node, name, _marked_block(node, block, runs))
    return ast.fix_missing_locations(tree), runs


def _marked_block(parent: ast.AST, block: Sequence[ast.stmt], runs: list[list[int]]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    waiting = _header(parent)
    for statement, following in zip(block, [*block[1:], None], strict=False):
        waiting += _lines(statement)
        if not _must_be_first(statement) and (_has_block(statement) or _ends_run(following)):
            found.append(_mark(waiting, statement, runs))
            waiting = []
        found.append(statement)
    return [*found, _mark(waiting, block[-1], runs)] if block and waiting else found


def _ends_run(following: ast.stmt | None) -> bool:
    return following is None or _has_block(following)


def _has_block(statement: ast.stmt) -> bool:
    return hasattr(statement, "body") or isinstance(statement, ast.Match)


def _must_be_first(statement: ast.stmt) -> bool:
    """Docstrings and imports from __future__ come before any mark."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _header(parent: ast.AST) -> list[int]:
    if isinstance(parent, ast.ExceptHandler):
        return [parent.lineno]
    return [parent.pattern.lineno] if isinstance(parent, ast.match_case) else []


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _lines(statement: ast.stmt) -> list[int]:
    if isinstance(statement, ast.Expr) and ast.unparse(statement) == "...":
        return []
    decorators: Iterable[ast.expr] = getattr(statement, "decorator_list", ())
    return [*(decorator.lineno for decorator in decorators), statement.lineno]


def _mark(lines: list[int], place: ast.stmt, runs: list[list[int]]) -> ast.stmt:
    target = ast.Subscript(ast.Name(MARKS, ast.Load()), ast.Constant(len(runs)), ast.Store())
    runs.append(lines)
    return ast.copy_location(ast.Assign([target], ast.Constant(1)), place)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "rmqcli":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in others)
        # pytest offers to rewrite the assertions of its plugins; it is no loader of files.
        spec = next(
            (spec for spec in found if spec is not None and isinstance(spec.loader, FileLoader)), None
        )
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Marking(fullname, os.path.realpath(spec.loader.path))
        return spec


class Marking(SourceFileLoader):
    """Imports a module with marks."""

    def exec_module(self, module: ModuleType) -> None:
        code, _runs[self.path] = self.compiled()
        vars(module)[MARKS] = _ran.setdefault(self.path, [0] * len(_runs[self.path]))
        exec(code, vars(module))

    def get_code(self, fullname: str) -> CodeType:
        return self.compiled()[0]

    def compiled(self) -> tuple[CodeType, list[list[int]]]:
        """Returns the bytecode, and the lines that each mark stands for."""
        source = self.get_data(self.path)
        parts = (MAGIC_NUMBER, _RULES, self.path.encode(), source)
        kept = COMPILED / blake2b(b"\0".join(parts), digest_size=20).hexdigest()
        if kept.exists():
            found: tuple[CodeType, list[list[int]]] = marshal.loads(kept.read_bytes())
            return found
        tree, runs = marked(source)
        compiled = compile(tree, self.path, "exec", dont_inherit=True), runs
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(marshal.dumps(compiled))
        unfinished.replace(kept)
        return compiled
