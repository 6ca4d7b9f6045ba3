"""`topic create`, `topic update` and `group create` where something exists already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import PullConsumer
from rmqcli.codec.message_queue import MessageQueue
from tests.cli.conftest import Run


def queues(rmq: Run, topic: str) -> list[str]:
    (row,) = rmq("topic", "describe", topic).lines
    return row[1:3]


def retries(rmq: Run, group: str) -> str:
    (row,) = rmq("group", "settings", group).lines
    return row[2]


def test_a_topic_that_exists_is_not_rewritten(rmq: Run, topic: str) -> None:
    again = rmq("topic", "create", topic, "--queues", "8")
    assert (again.code, again.out) == (ExitCode.FAILED, b"")
    assert again.err.startswith(f"rmq: topic {topic} exists already on broker-a: ")
    kept = rmq("topic", "create", topic, "--queues", "8", "--if-missing")
    assert (kept.code, kept.err) == (0, f"topic {topic} exists already on broker-a\n")
    as_json = rmq("topic", "create", topic, "--queues", "8", "--if-missing", "--json")
    assert as_json.json == {"brokers": [], "failures": {}, "existing": ["broker-a"]}
    assert queues(rmq, topic) == ["4", "4"]
    assert rmq("topic", "create", topic, "--queues", "8", "--replace").code == 0
    assert queues(rmq, topic) == ["8", "8"]
    both = rmq("topic", "create", topic, "--if-missing", "--replace")
    assert (both.code, "cannot be combined" in both.err) == (ExitCode.USAGE, True)


def test_a_group_that_exists_is_not_rewritten(rmq: Run, topic: str) -> None:
    group = f"G_{topic}"
    assert rmq("group", "create", group, "--retries", "3", "--if-missing").code == 0
    again = rmq("group", "create", group)
    assert (again.code, again.out) == (ExitCode.FAILED, b"")
    assert again.err.startswith(f"rmq: group {group} exists already on broker-a: ")
    kept = rmq("group", "create", group, "--if-missing")
    assert (kept.code, kept.err) == (0, f"group {group} exists already on broker-a\n")
    assert retries(rmq, group) == "3"
    assert rmq("group", "create", group, "--replace").code == 0
    assert retries(rmq, group) == "16"


@pytest.mark.parametrize("change", [("update",), ("create", "--replace")], ids=["an update", "a replacement"])
def test_queues_with_messages_are_not_hidden_unasked(rmq: Run, topic: str, change: tuple[str, ...]) -> None:
    verb, *options = change
    rmq("send", topic, "-q", "1", stdin=b"a\n")
    rmq("send", topic, "-q", "2", stdin=b"a\nb\n")
    rmq("send", topic, "-q", "3", stdin=b"c\n")
    fewer = ("topic", verb, topic, "--queues", "2", *options)
    refused = rmq(*fewer)
    assert (refused.code, queues(rmq, topic)) == (ExitCode.USAGE, ["4", "4"])
    assert "rmq: 3 messages in queues 2-3, which consumers will not see; " in refused.err
    assert "use --yes" in refused.err
    done = rmq(*fewer, "--yes")
    assert (done.code, "3 messages in queues 2-3" in done.err) == (0, True)
    assert queues(rmq, topic) == ["2", "2"]


@pytest.mark.parametrize("how", ["update", "apply", "cluster apply"])
def test_queues_that_are_only_read_are_not_hidden_unasked(
    rmq: Run, topic: str, how: str, tmp_path: Path
) -> None:
    """First fewer write queues, then fewer read queues: the order that rmq advises."""
    rmq("send", topic, "-q", "3", stdin=b"a\nb\n")
    assert rmq("topic", "update", topic, "--write-queues", "2").code == 0
    path = tmp_path / "wanted.json"
    if how == "update":
        fewer = ["topic", "update", topic, "--read-queues", "2"]
    elif how == "apply":
        path.write_text(json.dumps([{"name": topic, "readQueueNums": 2}]))
        fewer = ["topic", "apply", "--file", str(path)]
    else:
        document = json.loads(rmq("cluster", "dump", "--only", "topics").out)
        mine = document["topics"]["broker-a"][topic]
        document["topics"]["broker-a"] = {topic: {**mine, "readQueueNums": 2}}
        path.write_text(json.dumps(document))
        fewer = ["cluster", "apply", str(path)]
    refused = rmq(*fewer)
    assert (refused.code, queues(rmq, topic)) == (ExitCode.USAGE, ["4", "2"])
    assert "2 messages" in refused.err and "which consumers will not see" in refused.err
    assert (rmq(*fewer, "--yes").code, queues(rmq, topic)) == (0, ["2", "2"])


def test_figures_have_the_queues_that_are_only_read(rmq: Run, topic: str) -> None:
    group = f"G_{topic}"
    rmq("send", topic, "-q", "3", stdin=b"a\nb\n")
    assert rmq("topic", "update", topic, "--write-queues", "2").code == 0
    assert [row[1:5] for row in rmq("topic", "stats", topic).lines][2:] == [
        ["2", "0", "0", "0"],
        ["3", "0", "2", "2"],
    ]
    assert rmq("topic", "describe", topic).lines[0][5] == "2"
    assert [row[2:4] for row in rmq("topic", "stats").lines if row[0] == topic] == [["4", "2"]]
    rows = rmq("offsets", "reset", group, topic, "--to", "@-1h", "--yes").lines
    assert [row[1] for row in rows] == ["0", "1", "2", "3"]
    rows = rmq("offsets", "reset", group, topic, "--to", "@now", "--yes").lines
    assert (rows[-1][1], rows[-1][3]) == ("3", "2")


def test_messages_that_are_consumed_may_be_hidden(rmq: Run, topic: str) -> None:
    rmq("send", topic, "-q", "3", stdin=b"a\nb\n")
    rmq("consume", topic, "-g", f"G_{topic}", "--from", "start", "-c", "2")
    refused = rmq("topic", "update", topic, "--queues", "3")
    text = "2 messages in queue 3, which consumers will not see; all groups have consumed them\n"
    assert (refused.code, text in refused.err) == (ExitCode.USAGE, True)


def test_messages_are_not_made_unreadable_unasked(rmq: Run, topic: str) -> None:
    for number in ("1", "2"):
        rmq("send", topic, "x", "-q", number)
    refused = rmq("topic", "update", topic, "--perm", "w")
    assert refused.code == ExitCode.USAGE
    assert "rmq: 2 messages in queues 1-2, which consumers will not see; --perm r lets" in refused.err
    assert f"make topic {topic} unreadable: no terminal" in refused.err
    assert rmq("topic", "update", topic, "--perm", "w", "--yes").code == 0
    assert rmq("topic", "update", topic, "--perm", "w").code == 0  # they are unreadable already
    assert rmq("topic", "update", topic, "--perm", "rw").code == 0


def test_a_file_makes_no_messages_unreadable_unasked(rmq: Run, topic: str, tmp_path: Path) -> None:
    rmq("send", topic, "x", "-q", "3")
    path = tmp_path / "topics.json"
    path.write_text(json.dumps([{"topicName": topic, "perm": 2}]))
    refused = rmq("topic", "apply", "--file", str(path))
    assert (refused.code, "1 message, which consumers will not see" in refused.err) == (ExitCode.USAGE, True)


def test_fewer_queues_without_messages_need_no_answer(rmq: Run, topic: str) -> None:
    rmq("send", topic, "x", "-q", "3")
    assert rmq("topic", "update", topic, "--write-queues", "2").code == 0
    assert queues(rmq, topic) == ["4", "2"]
    rmq("topic", "delete", topic, "--yes")
    rmq("topic", "create", topic, "--queues", "4")
    assert rmq("topic", "update", topic, "--queues", "2").code == 0
    assert queues(rmq, topic) == ["2", "2"]


def commit_beyond(cluster: Cluster, group: str, topic: str) -> None:
    """Commit offset 2, as if brokers of 4.9 had kept it of a former topic."""

    async def commit() -> None:
        async with PullConsumer(namesrv=cluster.namesrv) as consumer:
            await consumer.commit(MessageQueue(topic, "broker-a", 0), 2, group)

    trio.run(commit)


def test_groups_with_offsets_of_a_former_topic_are_named(rmq: Run, cluster: Cluster, topic: str) -> None:
    group = f"G_{topic}"
    commit_beyond(cluster, group, topic)
    made = rmq("topic", "create", topic, "--queues", "4", "--replace")
    assert made.code == 0
    assert f"rmq: offsets of {group} are beyond the end of the new topic, " in made.err
    assert f"rmq offsets reset {group} {topic} --to start -n " in made.err


def test_a_topic_takes_the_offsets_of_its_groups_along(rmq: Run, topic: str) -> None:
    rmq("send", topic, "-q", "0", stdin=b"a\nb\n")
    rmq("consume", topic, "-g", f"G_{topic}", "--from", "start", "-c", "2")
    deleted = rmq("topic", "delete", topic, "--yes")
    assert (deleted.code, "are kept" in deleted.err) == (0, False)
    rmq("topic", "create", topic, "--queues", "4")
    rmq("send", topic, "-q", "0", stdin=b"c\nd\n")
    got = rmq("consume", topic, "-g", f"G_{topic}", "--from", "end", "-c", "2", "-f", r"%v\n")
    assert got.out == b"c\nd\n"


def test_the_lag_behind_an_offset_beyond_the_end_is_unknown(rmq: Run, cluster: Cluster, topic: str) -> None:
    group = f"G_{topic}"
    rmq("send", topic, "x", "-q", "0")
    commit_beyond(cluster, group, topic)
    unknown = [topic, "broker-a", "0", "2", "1", ""]
    for command in (("offsets", "show", group), ("group", "describe", group)):
        shown = rmq(*command)
        assert (shown.lines[0][:6], shown.lines[0][8]) == (unknown, "offset beyond the end")
        assert f"rmq: offsets of group {group} are beyond the end of topic {topic}, " in shown.err
        assert f"rmq offsets reset {group} {topic} --to start -n " in shown.err
    (queue, *others) = rmq("offsets", "show", group, "--json").json
    assert (queue["lag"], queue["lagUnknown"]) == (None, "offset beyond the end")
    assert [(one["lag"], one["lagUnknown"]) for one in others] == [(0, None)] * 3
    rmq("group", "create", group)
    (seen, *_) = [row for row in rmq("broker", "lag", "--least", "1").lines if row[1] == group]
    assert seen[3:7] == ["0", "2", "1", ""]
    (busy,) = [row for row in rmq("topic", "top", topic).lines if row[1] == group]
    assert busy[2] == ""
    (listed,) = [one for one in rmq("group", "list", "--json").json if one["group"] == group]
    assert (listed["lag"], listed["lagUnknown"]) == (None, "offset beyond the end")
