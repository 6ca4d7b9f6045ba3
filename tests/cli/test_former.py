"""Former spellings mean what they meant, with a warning; nothing but the table knows them."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from rmqcli.cli.app import command_tree
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.former import FORMER, present_words
from rmqcli.manual.tree import command_nodes
from tests.cli.conftest import Run


def rewritten(line: str) -> str:
    """Return the words of a command line in their present spelling, without the command's name."""
    command: Any = command_tree()
    context = typer.Context(command, info_name="rmq")
    words = line.split()
    while hasattr(command, "get_command"):
        name = words.pop(0)
        command = command.get_command(context, name)
        context = typer.Context(command, info_name=name, parent=context)
    return " ".join(present_words(command, context, words))


@pytest.mark.parametrize(
    ("line", "present"),
    [
        ("offsets show -g billing", "-- billing"),
        ("offsets show -gbilling --topic orders", "--topic orders -- billing"),
        ("offsets show --json --group=billing -t orders", "--json --topic orders -- billing"),
        ("offsets reset -t orders -g billing --to -10 -y", "--to -10 -y -- billing orders"),
        ("offsets reset -yv -g billing orders --to end", "-yv --to end -- billing orders"),
        ("offsets reset -yg billing --topic=orders", "-y -- billing orders"),
        ("offsets clone --to new -t orders --from old", "-- old new orders"),
        ("trace --id A1 --trace-topic T", "--trace-topic T -- A1"),
        ("topic create orders -q4 -b a", "--queues 4 -b a -- orders"),
        ("pull orders --sql=a=1", "--where a=1 -- orders"),
        ("consume orders -g g --from first", "-g g --from start -- orders"),
        ("inspect salvage DIR -o OUT", "--out OUT -- DIR"),
        ("namesrv run --listen 10.0.0.5:9876 --json", "--host 10.0.0.5 --port 9876 --json --"),
        ("namesrv run --listen=9876", "--host 0.0.0.0 --port 9876 --"),
        ("up -c broker.conf", "--config broker.conf --"),
        ("import -t orders -- -file", "--topic orders -- -file"),
    ],
)
def test_a_former_spelling(line: str, present: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rewritten(line) == present
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        "offsets show billing -T orders",
        "offsets reset billing orders --to start -q 1",
        "consume orders -g g --from start -t first",
        "send orders -t paid -k -g",
        "pull orders -f --sql",
        "export --out DIR -t paid",
        "up --config -c",
        "offsets show -- -g",
    ],
)
def test_a_present_spelling_stays(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert line.endswith(rewritten(line))
    assert capsys.readouterr().err == ""


def test_the_warning_is_one_line(rmq: Run, topic: str) -> None:
    group = f"G_{topic}"
    assert rmq("consume", topic, "-g", group, "--from", "first", "--idle", "0").err == (
        "rmq: --from first is now --from start (the old spelling works in this release only)\n"
    )
    result = rmq("offsets", "reset", "-g", group, "-t", topic, "--to", "start", "--dry-run")
    assert (result.code, len(result.lines)) == (ExitCode.DONE, 4)
    assert result.err.splitlines()[0] == (
        "rmq: -g is now the argument GROUP; -g means --group; -t is now the argument TOPIC; -t means --tag "
        "(the old spelling works in this release only)"
    )
    shown = rmq("offsets", "show", group, "-t", topic)
    assert shown.err.startswith("rmq: -t is now -T/--topic; -t means --tag (")


def test_the_former_letter_of_a_server_that_names_no_command(cli: Run) -> None:
    result = cli("broker", "-c", "no.conf")
    assert (result.code, result.err.splitlines()[-1]) == (4, "rmq: no.conf: No such file or directory")


def test_help_and_completions_do_not_show_former_spellings() -> None:
    nodes = {" ".join(node.path): node for node in command_nodes()}
    for path, former in FORMER.items():
        names = {name for option in nodes[path].options for name in option.names}
        assert not names & {old for old, now in former.items() if not now.values}, path
