"""The compiled core and the interpreted one do the same with whatever bytes arrive."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqcli.codec import core
from tests.seeds import times
from tests.support import PATIENCE

FOLDER = Path(core.__file__).parent
NEVER_RUN = {"__init__.is_compiled"}
"""Functions of the core that no bytes lead to."""


def start(folder: Path, *options: str, pure: bool) -> subprocess.Popen[str]:
    """Start the comparison in one form, without coverage, which takes several times as long."""
    environment = {name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_START"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.forms.outcomes", str(folder), *options],
        env=environment | {"RMQ_PURE": "1" if pure else "0", "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        text=True,
    )


def lines_of(process: subprocess.Popen[str]) -> list[str]:
    printed, _ = process.communicate(timeout=10 * PATIENCE)
    assert process.returncode == 0
    return printed.splitlines()


def functions(path: Path) -> Iterator[str]:
    """Yield the functions and methods of a module of the core, as `outcomes --ran` prints them."""
    tree = ast.parse(path.read_text())
    bodies = [
        ("", tree.body),
        *((f"{one.name}.", one.body) for one in tree.body if isinstance(one, ast.ClassDef)),
    ]
    for name, body in bodies:
        yield from (f"{path.stem}.{name}{one.name}" for one in body if isinstance(one, ast.FunctionDef))


@pytest.mark.skipif(os.environ.get("RMQ_PURE") == "1" or not core.is_compiled(), reason="nothing is compiled")
def test_both_forms_have_the_same_outcomes(tmp_path: Path) -> None:
    processes = [start(tmp_path, pure=pure) for pure in (False, True)]
    compiled, interpreted = (lines_of(process) for process in processes)
    unlike = [pair for pair in zip(compiled, interpreted, strict=True) if pair[0] != pair[1]]
    assert unlike[:5] == []
    assert len(compiled) > min(times(12_500), 50_000)


def test_each_function_of_the_core_runs_meanwhile(tmp_path: Path) -> None:
    """A function that no bytes reach is not compared: it is unused, or `outcomes` lacks what leads to it."""
    known = {name for path in FOLDER.glob("*.py") for name in functions(path)}
    assert known - set(lines_of(start(tmp_path, "--ran", pure=True))) == NEVER_RUN
