"""The marks of tests/lines.py say the same as the tracing of coverage."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import coverage
import pytest

from tests import lines

PROGRAM = '''"""A module."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import cache


class Colour(enum.Enum):
    """A class."""

    RED = 1
    """A value."""
    BLUE = 2


@cache
@cache
def kind(value: object) -> str:
    """Docstrings are no statements."""
    match value:
        case int() if value > 5:
            return "large"
        case int():
            return "small"
        case _:
            pass
    if value == "a":
        return "a"
    elif value == "b":
        return "b"
    else:
        return (
            "other"
        )


def pairs() -> Iterator[int]:
    for number in range(3):
        if number == 1: continue
        yield number
    else:
        yield 7


def failing(step: int) -> int:
    try:
        try:
            if step > 1:
                raise KeyError(step)
            print("not after the error")
        except ValueError:
            return 1
        except KeyError:
            return 2
        finally:
            step += 1
    finally:
        with open("/dev/null"):
            step += 1
    return 3


def never() -> None:
    global unknown
    unknown = 1


kind(9)
kind("b")
list(pairs())
failing(2)
'''


def load(path: Path, loader: importlib.machinery.SourceFileLoader) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path, loader=loader)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_the_lines_that_coverage_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers of `except` and `case` that were tried in vain are the only difference."""
    monkeypatch.setattr(lines, "COMPILED", tmp_path)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    before = sys.gettrace()
    tracing = coverage.Coverage(data_file=None, config_file=False, include=[str(path)])
    with tracing.collect():
        load(path, importlib.machinery.SourceFileLoader("program", str(path)))
    sys.settrace(before)
    load(path, lines.Marking("program", str(path)))
    load(path, lines.Marking("program", str(path)))  # from what the first one has kept
    _, statements, _, missing, _ = tracing.analysis2(str(path))
    found = set(lines.lines_of(str(path))) & set(statements)
    headers = ("        except ValueError:", "        case int():")
    in_vain = {PROGRAM.splitlines().index(header) + 1 for header in headers}
    assert found == set(statements) - set(missing) - in_vain
    assert in_vain.isdisjoint(missing)
    assert 0 < len(missing) < len(found)


RAISING = """first = 1
if first:
    second = first / 0
third = 3
"""


@pytest.mark.parametrize(
    ("program", "found"), [(RAISING, [1, 2, 3]), ("first = 1\nsecond = first / 0\n", [1, 2])]
)
def test_what_follows_a_statement_that_raises_did_not_run(
    program: str, found: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lines_that_ran(program, tmp_path, monkeypatch) == found


def test_what_is_before_a_statement_that_raises_in_its_run_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "first = 1\nsecond = first / 0\nthird = 3\n"
    assert lines_that_ran(program, tmp_path, monkeypatch) == []


def lines_that_ran(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setattr(lines, "COMPILED", folder)
    path = folder / "raising.py"
    path.write_text(program)
    with pytest.raises(ZeroDivisionError):
        load(path, lines.Marking("raising", str(path)))
    return lines.lines_of(str(path))


INTERPRETED = """import json
import os
from tests import lines

lines.begin()
from rmqcli.codec.core import hashing, text

hashing.tags_code("TagA")
print(json.dumps([lines.lines_of(os.path.realpath(module.__file__)) for module in (hashing, text)]))
"""


def test_the_interpreted_core_is_marked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED],
        cwd=lines.ROOT,
        env=os.environ | {"RMQ_PURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    hashing, text = json.loads(done.stdout)
    assert len(hashing) > 20
    assert len(text) > 20
