"""Documents of `--json` fit the schema that the package ships. Every test that reads `Result.json` checks that, too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from rmqcli.cli.errors import Ended, Judged, note_end, report
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.settings import Given, Settings
from rmqcli.commands.common.outcome import end_partly
from rmqcli.manual.pages import command_nodes
from rmqcli.render.message_json import MESSAGE_FIELDS
from tests.cli.conftest import Run, check_documents
from tests.json_schema import COMMANDS, SCHEMA, definition, faults, strict_definition
from tests.support import JavaStore

ROOT = Path(__file__).parents[2]


def wrong(text: str | bytes, name: str | None = None) -> list[str]:
    """Return what is wrong with a document."""
    return list(faults(json.loads(text), SCHEMA if name is None else definition(name)))


def test_documents(rmq: Run, topic: str) -> None:
    assert rmq("send", topic, "hello", "-k", "k1", "-t", "paid").code == 0
    lists = (("topic", "list"), ("topic", "stats", topic), ("cluster", "list"), ("group", "list"))
    for words in lists:
        assert wrong(rmq(*words, "--json").out, "list") == [], words
    assert wrong(rmq("topic", "route", topic, "--json").out) == []
    assert wrong(rmq("topic", "update", topic, "--perm", "rw", "--json").out, "change") == []
    (line,) = rmq("pull", topic, "--json").out.splitlines()
    assert wrong(line, "message") == []
    assert set(json.loads(line)) - {"body"} == set(MESSAGE_FIELDS)
    assert set(MESSAGE_FIELDS) < set(definition("message")["properties"])


WITHOUT = {
    *(
        "help",
        "profile add",
        "profile edit",
        "profile set",
        "profile use",
        "profile import",
        "profile remove",
    ),
}
"""Commands that print no document."""
SWEEP = """
topic list --long
topic top
topic entries {topic}
topic allocate {topic} a b --room r --room-of *=r --fixed a=broker-a:0
topic order show
topic order set {topic} broker-a:2 --dry-run
topic update {topic} --perm rw
broker status
broker config show brokerName
broker config set flushDelayOffsetInterval=5000 --dry-run
broker config diff --defaults
broker lag
broker clean topics --dry-run
broker drain broker-a --dry-run
broker ha show
namesrv config show
namesrv kv set {topic} a b --yes
namesrv kv list {topic}
namesrv kv get {topic} a
namesrv kv delete {topic} a --yes
check brokers
check disk --warn 99.9 --crit 100
cheat
cheat consume
id 7F000001000022B80000000000001C0D
metrics show
cluster dump
top brokers --once --interval 0.1
pull {topic} --stats
query {topic} --key k1 --track
inspect store {store}
inspect consumequeue {store} -c 2
inspect index {store}
inspect checkpoint {store}
inspect topics {store}
inspect groups {store}
inspect offsets {store}
inspect delay {store}
inspect verify {store}
"""
"""Lines of commands whose documents few other tests print; `cli` holds each to its definition."""


def test_every_command_has_a_definition() -> None:
    names = {" ".join(node.path) for node in command_nodes() if node.path and not node.commands}
    assert names - WITHOUT == set(COMMANDS)
    for name in COMMANDS:
        assert strict_definition(name), "every reference leads somewhere"
    members = definition("members/properties")
    text = json.dumps({name: one for name, one in SCHEMA["$defs"].items() if name != "members"})
    assert [name for name in members if f'/members/properties/{name}"' not in text] == []
    assert [name for name, one in members.items() if not one["description"].endswith(".")] == []


def test_documents_fit_their_definitions(
    rmq: Run, topic: str, copy_java_store: Callable[[str], JavaStore]
) -> None:
    assert rmq("send", topic, "hello", "-k", "k1", "--json").code == 0
    store = copy_java_store("store-killed").root
    lines = [line.format(topic=topic, store=store) for line in SWEEP.split("\n") if line]
    found = {line: rmq(*line.split(), "--json") for line in lines}
    assert {line: one.err for line, one in found.items() if one.code or not one.out} == {}


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("topic list", [{"topic": "a", "more": 1}]),
        ("topic list", [{"topic": 1}]),
        ("topic list", {"topic": "a"}),
        ("topic stats", [{"brokerName": "a"}]),
        ("offsets reset", {"version": 1}),
        ("id", [{"msgId": "a", "kind": None}]),
    ],
)
def test_definitions_refuse(command: str, value: Any) -> None:
    assert list(faults(value, strict_definition(command)))
    with pytest.raises(AssertionError):
        check_documents([*command.split(), "--json"], json.dumps(value).encode())


def test_errors(cli: Run) -> None:
    assert wrong(cli("topic", "list", "--json", "-n", "127.0.0.1:1").err, "error") == []
    assert wrong(cli("pull", "--json").err, "error") == []
    unsent = cli("send", "t", "x", "--json", "-n", "127.0.0.1:1")
    assert unsent.error["exitCode"] == unsent.code == ExitCode.NO_CONNECTION
    assert unsent.error["message"].startswith("not sent: cannot connect to name server 127.0.0.1:1: ")
    assert "start a broker with `rmq up`" in unsent.error["message"]
    facts = definition("error")["properties"]["error"]["properties"]
    own = {code for code in ExitCode if code is not ExitCode.DONE}
    assert set(facts["kind"]["enum"]) == {code.name.lower() for code in own}
    assert set(facts["exitCode"]["enum"]) == {int(code) for code in own}


def test_failures_of_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Ended) as caught:
        end_partly({"broker-b": "did not answer"}, {"broker-b": "kept a topic"}, done=True)
    assert report(caught.value, Settings(Given(json=True))) is ExitCode.PARTLY
    (document,) = capsys.readouterr().err.splitlines()
    assert wrong(document, "error") == []
    facts = json.loads(document)["error"]
    assert (facts["kind"], facts["exitCode"]) == ("partly", 3)
    assert facts["failures"] == {"broker-b": "did not answer; kept a topic"}
    assert report(caught.value) is ExitCode.PARTLY
    assert capsys.readouterr().err == ("rmq: broker-b: did not answer\nrmq: broker-b: kept a topic\n")


@pytest.mark.parametrize("code", [code for code in ExitCode if code])
@pytest.mark.parametrize("kind", [Ended, typer.Exit, SystemExit])
def test_every_end_has_a_document(
    capsys: pytest.CaptureFixture[str], code: ExitCode, kind: type[BaseException]
) -> None:
    assert report(kind(code), Settings(Given(json=True))) is code
    (document,) = capsys.readouterr().err.splitlines()
    assert wrong(document, "error") == []
    assert json.loads(document)["error"]["exitCode"] == code
    assert report(kind(code)) is code
    assert capsys.readouterr().err == "", "its lines are printed before"


def test_ends_without_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(Given(json=True))
    assert [report(end, settings) for end in (Ended(ExitCode.DONE), Judged(2), BrokenPipeError())] == [
        0,
        2,
        0,
    ]
    assert capsys.readouterr().err == ""


def test_commands_end_with_a_reason() -> None:
    """A bare Exit would leave the document of an error with the text of its code only."""
    bare = re.compile(r"raise (typer\.)?Exit\b|sys\.exit|raise SystemExit")
    files = (ROOT / "rmqcli" / "commands").rglob("*.py")
    assert [str(path) for path in files if bare.search(path.read_text("utf-8"))] == []


def test_ctrl_c_has_a_document_with_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    inner = KeyboardInterrupt()
    note_end(inner, ["interrupted: 5 sent"])
    around = BaseExceptionGroup("", [inner])
    for error in (inner, around):
        inner.__context__ = around if error is around else None
        assert report(error, Settings(Given(json=True))) is ExitCode.INTERRUPTED
        (document,) = capsys.readouterr().err.splitlines()
        assert wrong(document, "error") == []
        facts = {"message": "interrupted: 5 sent", "kind": "interrupted", "exitCode": 130}
        assert json.loads(document)["error"] == facts
    assert report(KeyboardInterrupt()) is ExitCode.INTERRUPTED
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"brokers": []}, None),
        ({"version": 2}, None),
        ([{"Topic": "x"}], None),
        ([1], None),
        ("text", None),
        ({"version": 1, "brokers": ["a"], "failures": {"b": 1}}, "change"),
        ({"version": 1, "error": {"message": "m", "kind": "odd", "exitCode": 1}}, "error"),
        ({"version": 1, "error": {"message": "m", "kind": "usage", "exitCode": 2}, "more": 1}, "error"),
        ({"topic": "t"}, "message"),
    ],
)
def test_the_schema_refuses(value: Any, name: str | None) -> None:
    assert wrong(json.dumps(value), name)


def test_help_prints_the_schema(cli: Run) -> None:
    assert json.loads(cli("help", "json-schema").out) == SCHEMA
