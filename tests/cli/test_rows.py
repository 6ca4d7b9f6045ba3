"""--columns, --sort, --header and --csv: which commands have them, and what they do in every form of output."""

from __future__ import annotations

import ast
import csv
import importlib.util
import inspect
import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from rmqcli.cli.app import command_tree
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.row_options import OPTIONS
from rmqcli.cli.settings import Given, Settings
from rmqcli.grammar.values import GrammarError, UnknownName
from rmqcli.render import Column, show_rows
from rmqcli.render.table import RowForm
from tests.cli.conftest import Run

PRINTERS = frozenset(
    ("show_rows", "stream_rows", "show_matrix", "renderer", "message_renderer", "SendReport")
)
PACKAGES = ("rmqcli.commands", "rmqcli.render")
KEYS = ("name", "lag")
ROWS: list[list[Any]] = [["a", 10], ["b", None], ["c", 9], ["d", 9]]
COLUMNS = [Column("NAME", "name"), Column("LAG", "lag", number=True), Column("NOTE", "note", minor=True)]


def leaves(command: Any, context: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    if not names:
        yield path, command
    for name in names:
        child = command.get_command(context, name)
        yield from leaves(child, typer.Context(child, info_name=name, parent=context), (*path, name))


@cache
def definitions(module: str) -> tuple[dict[str, ast.AST], dict[str, tuple[str, str]], set[str]]:
    """The functions and classes of a module, and what it imports of ours, by name; those that are no methods."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    nodes = list(ast.walk(tree))
    own = {
        node.name: node
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    imported = {
        one.asname or one.name: (node.module, one.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGES)
        for one in node.names
    }
    return dict(own), imported, {node.name for node in tree.body if hasattr(node, "name")}


def prints(module: str, name: str, seen: set[tuple[str, str]]) -> bool:
    """True if the function uses one of PRINTERS, or something that does."""
    if (module, name) in seen:
        return False
    seen.add((module, name))
    own, imported, functions = definitions(module)
    nodes = list(ast.walk(own[name])) if name in own else []
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    if (names | attributes) & PRINTERS:
        return True
    # A method may have the name of a command of the same module.
    called = own.keys() & (names | attributes - functions)
    return any(prints(module, word, seen) for word in called) or any(
        prints(*imported[word], seen) for word in (names | attributes) & imported.keys()
    )


def test_every_command_with_rows_has_the_options() -> None:
    tree = command_tree()
    found, expected = {}, {}
    for path, command in leaves(tree, typer.Context(tree, info_name="rmq")):
        function = inspect.unwrap(command.callback)
        names = {name for one in command.params for name in one.opts}
        if path == ("export",):  # has columns of its own
            continue
        found[path] = {f"--{name}" for name in OPTIONS} <= names
        expected[path] = prints(function.__module__, function.__name__, set())
    assert found == expected


def test_numbers_are_sorted_as_numbers_and_missing_values_last() -> None:
    def order(*sort: str) -> str:
        return "".join(row[0] for row in RowForm(sort=sort).ordered(KEYS, ROWS))

    assert [order(), order("lag"), order("-lag"), order("lag", "-name")] == ["abcd", "cdab", "acdb", "dcab"]
    texts = RowForm(sort=("name",)).ordered(KEYS, [["10", 0], ["9", 0], ["", 0]])
    assert [row[0] for row in texts] == ["9", "10", ""]
    mixed = RowForm(sort=("-name",)).ordered(KEYS, [["10", 0], ["9a", 0]])
    assert [row[0] for row in mixed] == ["9a", "10"]
    names = RowForm(sort=("name",)).ordered(KEYS, [["nan", 0], ["10", 0], ["inf", 0], ["9", 0]])
    assert [row[0] for row in names] == ["10", "9", "inf", "nan"]


def test_a_column_that_does_not_exist() -> None:
    with pytest.raises(UnknownName, match=r"^--sort lagg: expected name, lag$") as caught:
        RowForm(sort=("-lagg",)).ordered(KEYS, ROWS)
    assert (caught.value.missing, caught.value.known) == (("column", "lagg"), KEYS)


def test_csv_can_be_read_back() -> None:
    form = RowForm(csv=True)
    values = ["a,b", 'say "x"', "", " pad", ["x", "y"], 1.5]
    assert form.line(values) == '"a,b","say ""x""",," pad","x,y",1.5\r'
    assert next(csv.reader(io.StringIO(form.line(values)))) == ["a,b", 'say "x"', "", " pad", "x,y", "1.5"]
    assert form.line(["\x1b[31m\n"]) == "\\x1b[31m\\n\r", "no control characters"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Given(columns=("lag,name",), sort=("-lag",)), "10\ta\n9\tc\n9\td\n\tb\n"),
        (Given(header=True), "name\tlag\tnote\na\t10\tx\n"),
        (Given(csv=True, columns=("name",)), "name\r\na\r\n"),
        (Given(json=True, columns=("lag", "name"), sort=("name",)), '[{"lag":10,"name":"a"}'),
    ],
)
def test_forms(given: Given, expected: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    show_rows(Settings(given), COLUMNS, [[*row, "x"] for row in ROWS])
    assert capsysbinary.readouterr().out.decode().startswith(expected)


def test_a_table_shows_what_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "tty", property(lambda self: True))
    monkeypatch.setenv("COLUMNS", "20")
    settings = Settings(Given(columns=("note", "name"), sort=("-name",)))
    assert not settings.terminal and settings.table
    show_rows(settings, COLUMNS, [[*row, "n" * 9] for row in ROWS], hidden=["note"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [["NOTE", "NAME"], ["n" * 9, "d"]]
    show_rows(Settings(Given(columns=("name", "note"))), COLUMNS, [["a", 1, ""]])
    assert capsys.readouterr().out.split() == ["NAME", "NOTE", "a"], "an empty column that was asked for"
    show_rows(Settings(Given(csv=True)), COLUMNS, [["a", 1, ""]])
    assert capsys.readouterr().out.splitlines() == ["name,lag,note", "a,1,"]


def test_lists_messages_and_results(rmq: Run, topic: str) -> None:
    sent = rmq("send", topic, "-q", "0", "--columns", "queueOffset,status", "--header", stdin=b"x,y\nz")
    assert sent.lines == [["queueOffset", "status"], ["0", "SEND_OK"], ["1", "SEND_OK"]]
    stats = ("topic", "stats", topic, "--sort", "-messages,-queueId", "--columns", "queueId,messages")
    assert rmq(*stats).lines == [["0", "2"], ["3", "0"], ["2", "0"], ["1", "0"]]
    assert rmq(*stats, "--json").json[1] == {"queueId": 3, "messages": 0}
    assert (
        rmq("pull", topic, "--csv", "--columns", "body,queueOffset").out
        == b'body,queueOffset\r\n"x,y",0\r\nz,1\r\n'
    )
    assert rmq("pull", topic, "--json", "--columns", "body").json_lines == [{"body": "x,y"}, {"body": "z"}]
    assert rmq("pull", topic, "--header").lines[0][-3:] == ["tags", "keys", "body"]
    assert rmq("cluster", "list", "--json", "--columns", "brokerName,error").json == [
        {"brokerName": "broker-a", "error": None}
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("topic stats {} --sort messags", "--sort messags: expected brokerName, queueId"),
        ("topic stats {} --columns messags", "did you mean messages?"),
        ("pull {} --sort body", "--sort: rows are printed as they come"),
        ("pull {} --columns bdy", "--columns bdy: expected topic, brokerName"),
        ("pull {} --header -f %v", "--format and --columns, --header or --csv cannot be combined"),
        ("send {} x --sort status", "--sort: rows are printed as they come"),
        ("group describe {} --columns lag --json", "the document is not a list of rows"),
        ("topic list --csv --json", "--csv and --json cannot be combined"),
        ("topic create {} --csv", "No such option: --csv"),
    ],
)
def test_what_is_refused(rmq: Run, topic: str, words: str, message: str) -> None:
    result = rmq(*words.format(topic).split())
    assert (result.code, result.out) == (ExitCode.USAGE, b"")
    assert message in result.err and result.err.count("\n") == 1


def test_views_without_rows_refuse_them() -> None:
    with pytest.raises(GrammarError, match="--verify has none"):
        RowForm(header=True).refuse("--verify")
    assert json.dumps(RowForm().arranged([{"a": 1}])) == '[{"a": 1}]'
