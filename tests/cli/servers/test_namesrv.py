"""`rmq namesrv config` and `kv`, and `rmq topic order`: two name servers that do not replicate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run
from tests.cli.servers.clusters import Pair

NS = "desk"
LOST = "127.0.0.1:1"


@pytest.fixture
def first(both: Run, pair: Pair) -> Run:
    """Runs a command line with the first name server only."""
    return lambda *arguments, stdin=b"": both("-n", pair.names[0], *arguments, stdin=stdin)


@pytest.fixture
def lost(both: Run, pair: Pair) -> Run:
    """Runs a command line with the first name server, and one that does not answer."""
    return lambda *arguments, stdin=b"": both("-n", f"{pair.names[0]};{LOST}", *arguments, stdin=stdin)


def test_properties_are_compared(both: Run, first: Run, pair: Pair) -> None:
    show = ("namesrv", "config", "show", "clusterTEST")
    assert both(*show).lines == [["clusterTest", "false", "false", "false"]]
    done = first("namesrv", "config", "set", "clusterTest=true", "--yes")
    assert done.lines == [[pair.names[0], "clusterTest", "false", "true"]]
    assert both(*show).lines == [["clusterTest", "true", "false", "true"]]
    assert both(*show, "--json").json == [
        {
            "property": "clusterTest",
            "values": dict(zip(pair.names, ["true", "false"], strict=True)),
            "differs": True,
        }
    ]
    back = both("namesrv", "config", "set", "clusterTest=false", "--yes", "--json").json
    assert (back["changed"], back["failures"]) == ([pair.names[0]], {})
    assert both("namesrv", "config", "show", "no*such").code == 4
    assert len(both("namesrv", "config", "show").lines) > 15


def test_a_property_that_is_refused(both: Run) -> None:
    refused = both("namesrv", "config", "set", "kvConfigPath=/tmp/x", "--yes")
    assert refused.code == 6 and "Can not update config in black list" in refused.err
    dry = both("namesrv", "config", "set", "clusterTest=true", "--dry-run")
    assert [row[1:] for row in dry.lines] == [["clusterTest", "false", "true"]] * 2
    assert both("namesrv", "config", "set", "clusterTest=true").code == 2


@pytest.fixture
def entry(both: Run) -> Iterator[str]:
    yield "color"
    both("namesrv", "kv", "delete", NS, "color", "--yes")


def test_an_entry_is_set_read_and_deleted(both: Run, pair: Pair, entry: str) -> None:
    assert both("namesrv", "kv", "list", NS).out == b""
    absent = both("namesrv", "kv", "get", NS, entry)
    assert (absent.code, absent.err) == (4, "rmq: no entry color in desk\n")
    dry = both("namesrv", "kv", "set", NS, entry, "red=1", "--dry-run")
    rows = [[server, "color", "", "red=1"] for server in pair.names]
    assert dry.lines == rows
    assert both("namesrv", "kv", "set", NS, entry, "red=1").code == 2
    done = both("namesrv", "kv", "set", NS, entry, "red=1", "--yes")
    assert (done.code, done.lines, done.err) == (0, rows, f"changed on {', '.join(pair.names)}\n")
    assert both("namesrv", "kv", "get", NS, entry).out == b"red=1\n"
    assert both("namesrv", "kv", "list", NS).lines == [["color", "red=1", "red=1", "false"]]
    gone = both("namesrv", "kv", "delete", NS, entry, "--yes", "--json")
    assert (gone.code, gone.json) == (0, {"brokers": list(pair.names), "failures": {}})
    assert both("namesrv", "kv", "delete", NS, entry, "--yes").code == 4


def test_entries_that_differ(both: Run, first: Run, pair: Pair, entry: str) -> None:
    first("namesrv", "kv", "set", NS, entry, "red", "--yes")
    assert both("namesrv", "kv", "list", NS).lines == [["color", "red", "", "true"]]
    one = both("namesrv", "kv", "get", NS, entry)
    assert (one.code, one.out, one.err) == (3, b"red\n", f"rmq: {pair.names[1]}: no such entry\n")
    assert both("namesrv", "kv", "get", NS, entry, "--json").json["values"] == {
        pair.names[0]: "red",
        pair.names[1]: None,
    }
    changed = both("namesrv", "kv", "set", NS, entry, "red", "--yes")
    assert changed.lines == [[pair.names[1], "color", "", "red"]]
    assert both("namesrv", "kv", "delete", NS, entry, "--dry-run").lines == [
        [server, "color", "red"] for server in pair.names
    ]


def test_a_name_server_that_does_not_answer_is_named(lost: Run, pair: Pair, entry: str) -> None:
    for words in (
        ("namesrv", "config", "show"),
        ("namesrv", "config", "set", "clusterTest=true", "--yes"),
        ("namesrv", "config", "set", "clusterTest=false", "--yes", "--json"),
        ("namesrv", "kv", "set", NS, entry, "red", "--yes"),
        ("namesrv", "kv", "get", NS, entry),
        ("namesrv", "kv", "list", NS),
        ("namesrv", "kv", "delete", NS, entry, "--dry-run"),
        ("namesrv", "kv", "delete", NS, entry, "--yes"),
    ):
        result = lost(*words)
        assert result.code == 3, words
        if "--json" in words:
            assert list(result.error["failures"]) == [LOST], words
        else:
            assert result.err.count(f"rmq: {LOST}: cannot connect to {LOST}") == 1, words


@pytest.fixture
def ordered(both: Run) -> Iterator[str]:
    assert both("topic", "create", "in_turn", "--queues", "3").code == 0
    yield "in_turn"
    both("topic", "order", "clear", "in_turn", "--yes")
    both("topic", "delete", "in_turn", "--yes")


def test_the_layout_of_a_topic(both: Run, pair: Pair, ordered: str) -> None:
    layout = "broker-a:3;broker-b:3"
    assert both("topic", "order", "show", ordered).code == 4
    dry = both("topic", "order", "set", ordered, "--dry-run")
    assert dry.lines == [[server, ordered, "", layout] for server in pair.names]
    assert dry.err.startswith("rmq: orderMessageEnable is false: change it with: rmq namesrv config set")
    assert both("topic", "order", "set", ordered, "--yes").code == 0
    assert both("topic", "order", "show").lines == [[ordered, layout, layout, "false"]]
    assert both("topic", "order", "set", ordered, "broker-b:2", "--yes", "-n", pair.names[1]).code == 0
    assert both("topic", "order", "show", ordered).lines == [[ordered, layout, "broker-b:2", "true"]]
    cleared = both("topic", "order", "clear", ordered, "--yes")
    assert (cleared.code, cleared.err) == (0, f"in_turn deleted on {', '.join(pair.names)}\n")
    assert both("topic", "order", "clear", ordered, "--yes").code == 4


@pytest.mark.parametrize("layout", ["broker-a", "broker-a:", ":4", "broker-a:0", "broker-a:4;", "a:x"])
def test_a_layout_that_is_none(both: Run, ordered: str, layout: str) -> None:
    result = both("topic", "order", "set", ordered, layout, "--yes")
    assert (result.code, "expected BROKER:QUEUES;BROKER:QUEUES" in result.err) == (2, True)


def test_producers_follow_the_layout(both: Run, ordered: str) -> None:
    both("namesrv", "config", "set", "orderMessageEnable=true", "--yes")
    both("topic", "order", "set", ordered, "broker-b:1", "--yes")
    sent = both("send", ordered, stdin=b"1\n2\n3\n").lines
    both("namesrv", "config", "set", "orderMessageEnable=false", "--yes")
    assert {(row[0], row[1]) for row in sent} == {("broker-b", "0")}


def test_a_layout_of_no_topic(both: Run) -> None:
    assert both("topic", "order", "set", "no_such_topic", "--yes").code == 4
