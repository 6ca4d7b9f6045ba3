"""`rmq pull --stats`: messages counted by queue, tag and key."""

from __future__ import annotations

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.render import message_counts
from rmqcli.render.message_counts import MessageCounts
from tests.cli.conftest import Run
from tests.cli.messages import stored


def test_counts_of_a_topic(rmq: Run, topic: str) -> None:
    for body, tag, queue in (("one", "a", "0"), ("two", "b", "1"), ("three", "a", "1")):
        assert rmq("send", topic, body, "-t", tag, "-q", queue, "-k", "shared", "-k", body).code == 0
    assert rmq("send", topic, "plain", "-q", "1").code == 0
    rows = rmq("pull", topic, "--stats").lines
    assert [row[:4] for row in rows] == [
        ["queue", "broker-a/0", "1", "3"],
        ["queue", "broker-a/1", "3", "13"],
        ["tag", "a", "2", "8"],
        ["tag", "", "1", "5"],
        ["tag", "b", "1", "3"],
        ["key", "shared", "3", ""],
    ]
    chosen = rmq("pull", topic, "--stats", "--json", "-t", "b").json
    assert [(row["by"], row["value"], row["messages"]) for row in chosen] == [
        ("queue", "broker-a/1", 1),
        ("tag", "b", 1),
    ]
    assert rmq("pull", topic, "--stats", "-f", "%v").code == ExitCode.USAGE
    assert rmq("pull", topic, "--stats", "--grep", "nothing", "--fail-empty").code == ExitCode.NOT_FOUND


def test_tags_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_counts, "MAX_TAGS", 2)
    counts = MessageCounts()
    for number in range(5):
        counts.add(stored(properties={"TAGS": f"t{number}"}))
    found = [(row[1], row[2]) for row in counts.rows() if row[0] == "tag"]
    assert found == [("(others)", 3), ("t0", 1), ("t1", 1)]
