"""`rmq broker --port 0` is `rmq broker run --port 0`; the same of `rmq namesrv`."""

from __future__ import annotations

import pytest

from rmqcli.cli.app import run
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.manual.pages import command_nodes
from tests.cli.conftest import Run

WRONG = "listenPort=nine"


@pytest.mark.parametrize("group", ["broker", "namesrv"])
@pytest.mark.parametrize(
    "words",
    [
        ["run", "--set", WRONG],
        ["--set", WRONG],
        [f"--set={WRONG}"],
        ["--json", "-n", "run", "--set", WRONG, "--timeout", "3"],
        ["-n", "127.0.0.1:1", "run", "--set", WRONG],
    ],
)
def test_the_options_of_run_need_no_command(cli: Run, group: str, words: list[str]) -> None:
    result = cli(group, *words)
    said = result.error["message"] if "--json" in words else result.err.removeprefix("rmq: ").rstrip()
    assert (result.code, said) == (ExitCode.USAGE, "listenPort=nine: a number is expected")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--json", "--help"], ["--set", WRONG, "--help"]])
def test_help_without_a_command_is_that_of_the_group(cli: Run, words: list[str]) -> None:
    result = cli("broker", *words)
    assert result.out.startswith(b"Usage: rmq broker [OPTIONS] COMMAND")
    assert b"Commands:\n  run " in result.out
    assert cli("broker", "run", *words).out.startswith(b"Usage: rmq broker run [OPTIONS]\n")


def test_all_commands_of_the_group_are_in_the_tree() -> None:
    names = {node.name for node in command_nodes()}
    assert {"rmq broker run", "rmq broker config show", "rmq namesrv run"} <= names


def test_another_word_is_no_command(cli: Run) -> None:
    result = cli("broker", "--json", "start")
    assert (result.code, result.error["message"]) == (2, "No such command 'start' (see: rmq broker --help)")


def test_only_run_is_built(built: list[str]) -> None:
    run(["namesrv", "--set", WRONG])
    assert built == ["run"]
