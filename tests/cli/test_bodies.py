"""Bodies as they are printed: without control bytes, cut, or left out; `--raw` gives the bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.settings import Given, Settings
from rmqcli.render.message_format import parse_format
from rmqcli.render.message_json import message_from_json
from rmqcli.render.message_rows import message_renderer, message_view
from rmqcli.render.text import Bodies, screenful
from tests.cli.conftest import Run
from tests.cli.messages import stored

EVIL = b"a\x1b]0;title\x07\x9b31m\xc2\x9b31m\x7f\r\b z\n\tb"
CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}


def controls(data: bytes) -> set[int]:
    return {ord(one) for one in data.decode()} & CONTROLS


@pytest.mark.parametrize(
    "options", [(), ("-f", r"%v %k %h{a} %h\n"), ("-f", r"%v{json} %h{json}\n"), ("--json",)]
)
def test_no_control_byte_leaves_by_default(rmq: Run, topic: str, options: tuple[str, ...]) -> None:
    assert (
        rmq("send", topic, "--whole", "-p", "a=\x1b[31m\x9b", "-k", "\x1bk", "-q", "0", stdin=EVIL).code == 0
    )
    for command in (("pull", topic), ("tail", topic, "--idle", "0.1"), ("query", topic, "--key", "\x1bk")):
        done = rmq(*command, *options)
        assert (done.code, controls(done.out)) == (0, set())
        assert b"title" in done.out or options == ("--json",)  # bodyBase64


def test_raw_gives_the_bytes(rmq: Run, topic: str) -> None:
    assert rmq("send", topic, "--whole", "-q", "0", stdin=EVIL).code == 0
    assert rmq("pull", topic, "--raw").out == EVIL + b"\n"
    assert rmq("pull", topic, "--raw", "-f", "%v").out == EVIL
    group = ("-g", f"g_{topic}", "--from", "start", "-c", "1")
    assert rmq("consume", topic, *group, "--raw", "-f", "%v").out == EVIL
    assert rmq("pull", topic, "--raw", "--json").code == ExitCode.USAGE


def test_text_stays_as_it_is() -> None:
    text = "häßlich\n\tund schön \\x1b 🦆"
    assert parse_format("%v")(stored(body=text.encode())).decode() == text


def test_what_is_escaped_in_a_format() -> None:
    assert (
        parse_format("%v")(stored(body=EVIL)) == rb"a\x1b]0;title\x07\x9b31m\x9b31m\x7f\x0d\x08 z" + b"\n\tb"
    )
    assert parse_format("%v{hex}")(stored(body=b"\x1b")) == b"1b"
    assert parse_format("\\x1b%v")(stored(body=b"\x1b")) == rb"\x1b".replace(rb"\x1b", b"\x1b" + rb"\x1b")


@given(st.text())
def test_json_is_the_same_text(text: str) -> None:
    line = message_renderer(Settings(Given(json=True)), None)(stored(body=text.encode("utf-8", "replace")))
    assert json.loads(line)["body"] == text.encode("utf-8", "replace").decode()
    assert not controls(line.rstrip(b"\n"))


@pytest.mark.parametrize(
    ("body", "limit", "shown"),
    [
        (b"hello", 5, b"hello"),
        (b"hello", 2, b"he"),
        ("hé".encode(), 2, b"h"),
        ("hé".encode(), 3, "hé".encode()),
        ("🦆🦆".encode(), 7, "🦆".encode()),
        (b"\xff\xfe\xfd", 2, b"\xff"),
        (b"\x80\x80\x80\x80", 3, b"\x80\x80\x80"),
    ],
)
def test_a_cut_leaves_characters_whole(body: bytes, limit: int, shown: bytes) -> None:
    assert Bodies(limit=limit).cut(body) == shown


def test_cut_bodies(rmq: Run, topic: str) -> None:
    assert rmq("send", topic, "hello", "-q", "0").code == 0
    assert rmq("pull", topic, "--max-body", "2", "-f", "%v %s").out == b"he 5"
    assert rmq("pull", topic, "--max-body", "2").lines[0][-1] == "he"
    line = rmq("pull", topic, "--max-body", "2", "--json")
    assert (line.json_line["body"], line.json_line["bodySize"], line.json_line["bodyCut"]) == ("he", 5, True)
    again = rmq("send", topic, "--jsonl", stdin=line.out)
    assert again.code == ExitCode.USAGE
    assert "its body was cut" in again.err
    assert "bodyCut" not in rmq("pull", topic, "--max-body", "9", "--json").json_line


def test_without_bodies(rmq: Run, topic: str) -> None:
    assert rmq("send", topic, "hello", "-q", "0").code == 0
    assert rmq("pull", topic, "--meta-only").lines[0][-1] == "5"
    line = rmq("pull", topic, "--meta-only", "--json").json_line
    assert (line.get("body"), line["bodySize"]) == (None, 5)
    with pytest.raises(ValueError, match="cut"):
        message_from_json(json.dumps(line), topic)
    for options in (("-f", "%v"), ("--raw",), ("--max-body", "2")):
        assert rmq("pull", topic, "--meta-only", *options).code == ExitCode.USAGE
    assert message_view(stored(), color=False, bodies=Bodies(meta_only=True)).endswith(b"[k1] [k2]  5 B\n")


def test_a_screenful() -> None:
    assert screenful("abc", 10, 3) == "abc"
    assert screenful("a\nb\nc\nd", 10, 3) == "a\nb\nc"
    assert screenful("x" * 35, 10, 3) == "x" * 30
    assert screenful("a\n" + "x" * 35, 10, 3) == "a\n" + "x" * 20
    view = message_view(stored(body=b"line\n" * 100), color=False, bodies=Bodies(screen=(80, 5))).decode()
    assert view.count("  line\n") == 5
    assert view.endswith("  … 500 B in all; --full shows the rest\n")
