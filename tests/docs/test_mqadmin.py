"""The table of mqadmin's commands names commands and options that `rmq` has."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from docs.make_mqadmin import PAGE, Row, rows, written
from rmqcli.cli.app import command_tree

COMMANDS_OF_4_9 = 60
COMMANDS_OF_5_ONLY = 37
"""In MQAdminStartup and `tools.command` of 4.9.8 and 5.3.3."""


class Root:
    """The command tree; it builds a command anew for each who asks, which takes 50 ms."""

    def __init__(self) -> None:
        self._tree = command_tree()
        self.make_context = self._tree.make_context
        self._built: dict[str, Any] = {}

    def get_command(self, context: Any, name: str) -> Any:
        if name not in self._built:
            self._built[name] = self._tree.get_command(context, name)
        return self._built[name]


@pytest.fixture(scope="module")
def root() -> Root:
    return Root()


def wrong(root: Root, line: str) -> Iterator[str]:
    """What a command line has that the tree does not: a command, an option, an argument."""
    program, *words = shlex.split(line)
    command: Any = root
    with root.make_context(program, [], resilient_parsing=True) as context:
        while words and hasattr(command, "get_command"):
            name = words.pop(0)
            command = command.get_command(context, name)
            if command is None:
                yield name
                return
    options = {name: one for one in command.params for name in (*one.opts, *one.secondary_opts)}
    arguments, left = 0, iter(words)
    for word in left:
        if not word.startswith("-"):
            arguments += 1
        elif word not in options:
            yield word
        elif not getattr(options[word], "is_flag", False) and word != "--watch":
            next(left, None)
    counts = [one for one in command.params if one.param_type_name == "argument"]
    most = len(counts) + 10 * any(one.nargs == -1 for one in counts)
    if not sum(one.required for one in counts) <= arguments <= most:
        yield f"{arguments} arguments"


def test_every_named_command_and_option_exists(root: Root) -> None:
    found = {line: list(wrong(root, line)) for row in rows() for line in row.commands}
    assert len(found) > 50
    assert {line: what for line, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("rmq topic make TOPIC", ["make"]),
        ("rmq topic create TOPIC --many", ["--many"]),
        ("rmq topic create", ["0 arguments"]),
        ("rmq topic create --queues N TOPIC OTHER", ["2 arguments"]),
        ("rmq topic top A B C --watch", []),
    ],
)
def test_a_mistake_is_found(root: Root, line: str, what: list[str]) -> None:
    assert list(wrong(root, line)) == what


def test_every_command_of_mqadmin_stands_once_with_an_equal() -> None:
    found = rows()
    assert len({row.name.lower() for row in found}) == len(found)
    assert sum("4.9" in row.versions for row in found) == COMMANDS_OF_4_9
    assert sum(row.versions == ("5",) for row in found) == COMMANDS_OF_5_ONLY
    assert [row.name for row in found if not row.commands] == []


def test_the_page_is_current() -> None:
    text = PAGE.read_text()
    assert written(text) == text, "run: python -m docs.make_mqadmin"
    assert text.count("\n| `") == len(rows())


def test_a_row_without_an_equal_says_so() -> None:
    from docs.make_mqadmin import _line

    row = Row("Topics", "updateTopicList", ("5",), (), "one at a time")
    assert _line(row) == "| `updateTopicList` (5.x) | none | one at a time |"
