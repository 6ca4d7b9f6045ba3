"""The docstrings of the product: each says what the thing is or does, in lines that fit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("codec", "broker", "rmqcli", "benchmarks")
WIDTH = 110
QUESTIONS = frozenset(["How", "That", "What", "When", "Where", "Whether", "Which", "Who", "Why"])
"""Words that open a clause, not a sentence."""


@cache
def texts() -> list[tuple[str, str]]:
    """Every text that stands alone as a statement, with its place: docstrings, and those behind attributes."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [
        (f"{path.relative_to(ROOT)}:{node.value.lineno}", node.value.value)
        for path in paths
        for node in statements(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node; those inside of expressions are none."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        found = getattr(tree, name, ())
        for node in found if isinstance(found, list) else ():
            if isinstance(node, ast.stmt):
                yield node
            yield from statements(node)


def test_a_docstring_opens_with_a_subject_or_a_verb() -> None:
    found = [place for place, text in texts() if text.split(" ", 1)[0] in QUESTIONS]
    assert found == []


def test_lines_of_docstrings_fit() -> None:
    lines = ((place, line) for place, text in texts() for line in text.splitlines())
    # `"""` and the indentation of the first line are not part of the value.
    assert [(place, line) for place, line in lines if len(line) > WIDTH] == []


NAME = re.compile(r"`(rmqcli(?:\.\w+)+)`")


def leads_somewhere(name: str) -> bool:
    """Return True if a dotted name is a module, or begins with one whose text has the next part."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        if source.exists():
            return count == len(parts) or re.search(rf"\b{parts[count]}\b", source.read_text()) is not None
    return False


def test_names_in_comments_docstrings_and_pages_lead_somewhere() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    files += [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
    named = {(str(path.relative_to(ROOT)), name) for path in files for name in NAME.findall(path.read_text())}
    assert len(named) > 50
    assert sorted(one for one in named if not leads_somewhere(one[1])) == []
