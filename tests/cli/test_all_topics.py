"""`topic list --long` and `topic stats` of all topics."""

from __future__ import annotations

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run


def test_settings_of_all_topics(rmq: Run, topic: str) -> None:
    rmq("topic", "update", topic, "--write-queues", "2", "--perm", "r")
    rows = rmq("topic", "list", "--long").lines
    assert [row for row in rows if row[0] == topic] == [[topic, "broker-a", "4", "2", "4", "false", ""]]
    listed = [row[0] for row in rmq("topic", "list").lines]
    assert sorted({row[0] for row in rows}) == listed
    every = rmq("topic", "list", "--long", "--all", "--json").json
    assert {"BenchmarkTest", topic} <= {row["topic"] for row in every}
    (mine,) = [row for row in every if row["topic"] == topic]
    assert (mine["brokerName"], mine["readQueueNums"], mine["messageType"]) == ("broker-a", 4, None)


def test_totals_of_all_topics(rmq: Run, topic: str) -> None:
    rmq("send", topic, "-q", "0", stdin=b"a\nb\n")
    rmq("send", topic, "c", "-q", "2")
    shown = rmq("topic", "stats")
    ((_, brokers, queues, messages, last, timers),) = [row for row in shown.lines if row[0] == topic]
    assert (brokers, queues, messages, int(last) > 0, timers) == ("1", "4", "3", True, "0")
    total = sum(int(row[3]) for row in shown.lines)
    assert shown.err.startswith(f"{len(shown.lines)} topic") and f", {total:,} message" in shown.err
    assert len(rmq("topic", "stats", "--all", "--json").json) > len(shown.lines)
    both = rmq("topic", "stats", topic, "--all")
    assert (both.code, "cannot be combined" in both.err) == (ExitCode.USAGE, True)
