"""An option that takes one value is refused when it is given twice; what has a name is named once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from rmqcli.cli.app import command_tree
from tests.cli.conftest import Run


def _walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name in getattr(command, "commands", {}):
        yield from _walk(command.get_command(None, name), (*words, name))


def test_no_option_of_any_command_drops_a_value() -> None:
    tree = command_tree()
    for words, command in _walk(tree):
        name = words[-1] if words else "rmq"
        # A command keeps the help option of the first context, for other tests too.
        context = command.context_class(command, info_name=name, help_option_names=["-h", "--help"])
        for option in command.params:
            if option.param_type_name != "option" or option.multiple or option.is_flag:
                continue
            for spelling in (option.opts[0], option.opts[-1]):
                given = [option.opts[0], "1", f"{spelling}", "2"]
                with pytest.raises(typer.BadParameter, match="given 2 times, but it takes one value"):
                    command.make_parser(context).parse_args(given)


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "list", "--tls", "--no-tls"],
        ["export", "--verify", "--store", "a", "--no-verify", "--out", "b"],
    ],
)
def test_flags_that_contradict_each_other(cli: Run, words: list[str]) -> None:
    done = cli(*words)
    assert done.code == 2 and "given twice" in done.err


def test_one_before_the_command_is_a_default_for_the_one_behind_it(cli: Run) -> None:
    done = cli("-n", "127.0.0.1:1", "topic", "list", "-n", "127.0.0.1:2", "--json", "--json")
    assert "127.0.0.1:2" in done.err and done.code == 5


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["send", "t", "x", "-p", "a=1", "-p", "a=2"], "--property a: given twice"),
        (["topic", "list", "--map", "a:1=b:1", "--map", "a:1=c:1"], "--map a:1: given twice"),
        (["up", "--set", "listenPort=1", "--set", "listenPort=2"], "--set listenPort: given twice"),
        (["broker", "config", "set", "a=1", "a=2"], "property a: given twice"),
        (
            ["export", "--topic", "t", "--out", "o", "--spark", "--conf", "a=1", "--conf", "a=2"],
            "--conf a: given twice",
        ),
    ],
)
def test_a_name_has_one_value(cli: Run, words: list[str], text: str, tmp_path: Path) -> None:
    done = cli(*words)
    assert (done.code, text in done.err) == (2, True), done.err
