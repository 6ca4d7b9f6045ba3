from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from rmqcli.cli.app import command_tree
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.plain_values import Plain, plain_values
from tests.cli.conftest import Run


def of(annotation: Any) -> Plain | None:
    parameter = inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    return plain_values([parameter]).get("x")


def test_what_is_plain() -> None:
    assert of(Annotated[str, typer.Argument()]) == Plain(str)
    assert of(Annotated[int | None, typer.Option(min=1, max=5)]) == Plain(int, low=1, high=5)
    assert of(Annotated[list[Path] | None, typer.Option()]) == Plain(Path, many=True)
    assert of(Annotated[bool, typer.Option(callback=print)]) is None
    assert of(Annotated[dict[str, str], typer.Option()]) is None
    assert of(Annotated[int | str, typer.Option()]) is None
    assert of(str) is None


def test_right_values() -> None:
    assert Plain(int, low=1, high=5).accept("5") == 5
    assert Plain(float).accept("0.5") == 0.5
    assert Plain(Path, many=True).accept(("a", "b")) == [Path("a"), Path("b")]
    assert Plain(bool).accept(True) is True


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        (Plain(int), "x"),
        (Plain(int, low=1), "0"),
        (Plain(int, high=5), "6"),
        (Plain(bool), "yes"),
        (Plain(str, many=True), "ab"),
        (Plain(str), 5),
    ],
)
def test_what_typer_decides(plain: Plain, value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        plain.accept(value)


def test_a_command_runs_without_the_validator_of_typer() -> None:
    called = "from rmqcli.__main__ import run; run(['profile', 'list'])"
    program = f"import sys; {called}; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_quick_way_is_installed_everywhere() -> None:
    tree = command_tree()
    context = typer.Context(tree)
    send = tree.get_command(context, "send")
    slow = {p.name for p in send.params if "process_value" not in vars(p)}
    assert slow == set()


def test_the_errors_are_those_of_typer(cli: Run) -> None:
    assert "Invalid value for '--count' / '-c'" in cli("pull", "t", "-c", "x").err
    assert "Invalid value for '--timeout'" in cli("--timeout", "0", "pull", "t").err
    assert "Missing argument 'TOPIC'" in cli("pull").err


@pytest.mark.parametrize(
    "command",
    [
        ("--timeout", "nan", "topic", "list"),
        ("send", "t", "x", "--rate", "NaN"),
        ("tail", "t", "--idle", "-nan"),
    ],
)
def test_no_number(cli: Run, command: tuple[str, ...]) -> None:
    result = cli(*command)
    assert result.code == ExitCode.USAGE
    assert "nan is not a number" in result.err
