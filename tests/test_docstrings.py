"""The docstrings of the product: each says what the thing is or does, in lines that fit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("codec", "broker", "rmqcli", "benchmarks")
WIDTH = 110
QUESTIONS = frozenset(["How", "That", "What", "When", "Where", "Whether", "Which", "Who", "Why"])
"""Words that open a clause, not a sentence."""


def texts() -> Iterator[tuple[str, ast.Constant]]:
    """Every text that stands alone as a statement: docstrings, and those behind attributes."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                value = node.value if isinstance(node, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield f"{path.relative_to(ROOT)}:{value.lineno}", value


def test_a_docstring_opens_with_a_subject_or_a_verb() -> None:
    found = [place for place, text in texts() if str(text.value).split(" ", 1)[0] in QUESTIONS]
    assert found == []


def test_lines_of_docstrings_fit() -> None:
    lines = ((place, line) for place, text in texts() for line in str(text.value).splitlines())
    # `"""` and the indentation of the first line are not part of the value.
    assert [(place, line) for place, line in lines if len(line) > WIDTH] == []
