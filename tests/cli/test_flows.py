"""Whole command lines against a running cluster, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.handlers import HANDLERS
from rmqcli.broker.handlers.pull import pull
from rmqcli.broker.net.handling import serve
from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.operations.messages import PULL_MESSAGE
from rmqcli.codec.remoting.frame import decode_frame, encode_frame
from tests.cli.conftest import Run
from tests.cli.waiting import until


def bodies(rmq: Run, topic: str, *arguments: str) -> list[bytes]:
    return rmq("pull", topic, "-f", r"%v\n", *arguments).out.splitlines()


def test_one_message_there_and_back(rmq: Run, topic: str) -> None:
    sent = rmq("send", topic, "höllo", "-k", "k1", "-k", "k2", "-t", "paid", "-p", "shop=berlin", "-q", "2")
    (row,) = sent.lines
    assert [row[0], row[1], row[2], row[4]] == ["broker-a", "2", "0", "SEND_OK"]
    (message,) = rmq("pull", topic, "--json").json_lines
    assert message["body"] == "höllo"
    assert message["keys"] == ["k1", "k2"]
    assert message["tags"] == "paid"
    assert message["properties"]["shop"] == "berlin"
    assert (message["queueId"], message["queueOffset"], message["msgId"]) == (2, 0, row[3])
    (line,) = rmq("pull", topic).lines
    assert line[:3] == ["broker-a", "2", "0"]
    assert line[5:] == ["paid", "k1,k2", "höllo"]


def test_a_json_line_for_each_acknowledged_message(rmq: Run, topic: str) -> None:
    sent = rmq("send", topic, "--json", stdin=b"a\nb\n")
    assert sent.code == 0
    assert [set(line) for line in sent.json_lines] == [
        {"msgId", "brokerName", "queueId", "queueOffset", "offsetMsgId", "status", "recallHandle"}
    ] * 2


def test_lines_files_and_delimiters(rmq: Run, topic: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"x\ny")
    two.write_bytes(b"\xff\n\x00")
    rmq("send", topic, "-q", "0", stdin=b"a\n\nb\r\n")
    rmq("send", topic, "-q", "1", "--delimiter", r"\0", stdin=b"c\nd\0e")
    rmq("send", topic, "-q", "2", "--file", str(one), "--file", str(two))
    rmq("send", topic, "-q", "3", "--whole", "--file", str(two))
    texts = [
        rmq("pull", topic, "-q", str(number), "-f", "%v{hex} ").out.decode().split(" ")[:-1]
        for number in range(4)
    ]
    assert [[bytes.fromhex(text) for text in queue] for queue in texts] == [
        [b"a", b"", b"b\r"],
        [b"c\nd", b"e"],
        [b"x", b"y", b"\xff", b"\x00"],
        [b"\xff\n\x00"],
    ]


def test_a_file_that_is_not_there(rmq: Run, topic: str) -> None:
    result = rmq("send", topic, "--file", "/nonexistent/file")
    assert (result.code, result.err) == (
        ExitCode.NOT_FOUND,
        "rmq: /nonexistent/file: No such file or directory\n",
    )


def test_message_lines_are_loss_free(rmq: Run, topic: str) -> None:
    for stdin, options in (
        (b"\xff\x00", ["-k", "k", "-p", "a= b "]),
        ("ü\n\t".encode(), ["-t", "tag"]),
        (b"", []),
    ):
        assert rmq("send", topic, "--whole", *options, stdin=stdin).code == 0
    read = rmq("pull", topic, "--json")
    copy = f"{topic}_copy"
    assert rmq("topic", "create", copy).code == 0
    assert rmq("send", copy, "--jsonl", "-q", "0", stdin=read.out).code == 0
    kept = ("msgId", "tags", "keys", "properties", "flag", "body", "bodyBase64", "bodyCrc")
    found = rmq("pull", copy, "--json").json_lines
    assert [[line.get(name) for name in kept] for line in found] == [
        [line.get(name) for name in kept] for line in read.json_lines
    ]


def test_partial_failure_says_which(rmq: Run, topic: str) -> None:
    lines = [b'{"body": "1"}', b"nonsense", b'{"body": "3"}', b'{"flag": 1}']
    result = rmq("send", topic, "--jsonl", stdin=b"\n".join(lines))
    assert result.code == ExitCode.PARTLY
    assert len(result.lines) == 2
    assert "rmq: not sent: line 2: not a message" in result.err
    assert "rmq: not sent: line 4: not a message" in result.err
    assert sorted(bodies(rmq, topic)) == [b"1", b"3"]


def test_a_message_that_is_too_large(rmq: Run, topic: str) -> None:
    result = rmq("send", topic, stdin=b"x" * (5 << 20) + b"\nsmall\n")
    assert result.code == ExitCode.PARTLY
    assert "not sent: line 1: " in result.err
    assert bodies(rmq, topic) == [b"small"]


@pytest.mark.parametrize(
    "options", [[], ["--batch", "32"], ["--concurrency", "1"], ["--oneway", "-q", "0"], ["-b", "broker-a"]]
)
def test_many(rmq: Run, topic: str, options: list[str]) -> None:
    lines = [b"%d" % number for number in range(500)]
    result = rmq("send", topic, *options, "-v", stdin=b"\n".join(lines))
    assert result.code == 0
    assert "500 messages" in result.err
    assert len(result.lines) == (0 if "--oneway" in options else 500)
    if "--oneway" in options:
        until(rmq, lambda found: len(found.lines) >= 500, "pull", topic)
    assert sorted(bodies(rmq, topic), key=int) == lines


def test_one_queue_keeps_the_order(rmq: Run, topic: str) -> None:
    lines = [b"%d" % number for number in range(200)]
    rmq("send", topic, "-q", "1", stdin=b"\n".join(lines))
    assert bodies(rmq, topic) == lines


def test_delayed(rmq: Run, topic: str) -> None:
    assert rmq("send", topic, "later", "--delay", "1s").code == 0
    result = rmq("tail", topic, "-c", "1", "--json")
    assert result.json_line["body"] == "later"
    assert result.json_line["storeTimestamp"] >= result.json_line["bornTimestamp"] + 1000


def test_ranges(rmq: Run, topic: str) -> None:
    rmq("send", topic, "-q", "0", stdin=b"0\n1\n2\n3\n4\n")
    assert bodies(rmq, topic, "-q", "0", "-o", "1:3") == [b"1", b"2"]
    assert bodies(rmq, topic, "-o", "-2") == [b"3", b"4"]
    assert bodies(rmq, topic, "-o", "end") == []
    assert bodies(rmq, topic, "-c", "2") == [b"0", b"1"]
    assert bodies(rmq, topic, "-o", "@-1h") == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies(rmq, topic, "-o", "@:-1h") == []
    third = int(rmq("pull", topic, "-q", "0", "-o", "2:3", "-f", "%d{ms}").out)
    assert bodies(rmq, topic, "-o", f"@{third}")[-3:] == [b"2", b"3", b"4"]


def test_tags(rmq: Run, topic: str) -> None:
    for tag in ("A", "B", "C"):
        rmq("send", topic, tag, "-t", tag)
    assert sorted(bodies(rmq, topic, "--tag", "A || C")) == [b"A", b"C"]
    assert rmq("tail", topic, "--tag", "B", "-f", "%v", "--idle", "0.1").out == b"B"


def test_tail(rmq: Run, topic: str) -> None:
    rmq("send", topic, stdin=b"\n".join(b"%d" % number for number in range(50)))
    assert len(rmq("tail", topic, "--idle", "0.1").lines) == 10
    assert len(rmq("tail", topic, "--last", "3", "--idle", "0.1", "--json").json_lines) == 3
    assert rmq("tail", topic, "--last", "0", "--idle", "0.1").out == b""
    assert len(rmq("tail", topic, "-c", "4").lines) == 4


@pytest.mark.parametrize(
    "command", [["pull"], ["tail"], ["topic", "route"], ["topic", "stats"], ["query", "--key", "k"]]
)
def test_an_unknown_topic(rmq: Run, command: list[str]) -> None:
    result = rmq(*command, "no_such_topic")
    assert result.code == ExitCode.NOT_FOUND
    assert result.out == b""
    assert "no_such_topic" in result.err


def test_a_queue_or_broker_that_is_not_there(rmq: Run, topic: str) -> None:
    assert rmq("pull", topic, "-q", "9").code == ExitCode.NOT_FOUND
    assert rmq("send", topic, "x", "-b", "broker-z").code == ExitCode.NOT_FOUND


def test_no_permission(rmq: Run, topic: str) -> None:
    rmq("topic", "update", topic, "--perm", "r")
    result = rmq("send", topic, "x")
    assert result.code in (ExitCode.NOT_PERMITTED, ExitCode.NOT_FOUND), result.err
    rmq("topic", "update", topic, "--perm", "w")
    sent = rmq("send", topic, "x")
    assert sent.code == 0, sent.err
    pulled = rmq("pull", topic)
    assert pulled.code == ExitCode.NOT_PERMITTED, pulled.err


def test_topic_commands(rmq: Run, topic: str, cluster: Cluster) -> None:
    assert [topic] in rmq("topic", "list").lines
    assert ["broker-a"] not in rmq("topic", "list").lines
    assert ["broker-a"] in rmq("topic", "list", "--all").lines
    assert {"topic": topic} in rmq("topic", "list", "--json").json
    rmq("send", topic, "x", "-q", "1")
    assert rmq("topic", "describe", topic).lines == [["broker-a", "4", "4", "6", "false", "1", "", ""]]
    assert rmq("topic", "route", topic).lines == [
        ["DefaultCluster", "broker-a", "0", cluster.broker_address, "4", "4", "6"]
    ]
    assert rmq("topic", "route", topic, "--json").json["brokerDatas"][0]["brokerAddrs"] == {
        "0": cluster.broker_address
    }
    stats = rmq("topic", "stats", topic, "--json").json
    assert [(queue["queueId"], queue["messages"]) for queue in stats] == [(0, 0), (1, 1), (2, 0), (3, 0)]
    assert rmq("topic", "update", topic, "--read-queues", "6", "--perm", "4", "--json").json == {
        "brokers": ["broker-a"],
        "failures": {},
    }
    assert rmq("topic", "describe", topic).lines[0][1:4] == ["6", "4", "4"]


def test_deleting_a_topic(rmq: Run, topic: str) -> None:
    refused = rmq("topic", "delete", topic)
    assert refused.code == ExitCode.USAGE
    assert "--yes" in refused.err
    assert rmq("topic", "delete", topic, "--yes").code == 0
    assert [topic] not in rmq("topic", "list").lines
    assert rmq("topic", "delete", topic, "--yes").code == ExitCode.NOT_FOUND


def test_query(rmq: Run, topic: str) -> None:
    sent = rmq("send", topic, "x", "-k", "k1", "--json").json_line
    rmq("send", topic, "y", "-k", "k2")
    assert [line[-1] for line in rmq("query", topic, "--key", "k1").lines] == ["x"]
    assert rmq("query", topic, "--key", "k1", "--time", "@-1h", "-f", "%v").out == b"x"
    assert rmq("query", topic, "--key", "k1", "--time", "@:-1h").code == ExitCode.NOT_FOUND
    for name in ("msgId", "offsetMsgId"):
        (found,) = rmq("query", topic, "--id", sent[name], "--json").json_lines
        assert found["body"] == "x"
    missing = rmq("query", topic, "--key", "none")
    assert missing.code == ExitCode.NOT_FOUND
    assert missing.err == f"rmq: no message with key none in topic {topic}\n"
    for option in ("--key", "--id"):
        assert rmq("query", topic, option, "").code == ExitCode.USAGE


def test_cluster(rmq: Run, cluster: Cluster) -> None:
    (row,) = rmq("cluster", "list").lines
    assert row[:5] == ["DefaultCluster", "broker-a", "0", cluster.broker_address, "V4_9_8"]
    (broker,) = rmq("cluster", "list", "--json").json
    assert broker["runtime"]["brokerVersionDesc"] == "V4_9_8"
    assert broker["error"] is None


def offsets(rmq: Run, group: str) -> list[int | None]:
    return [queue["consumerOffset"] for queue in rmq("offsets", "show", group, "--json").json]


def test_offsets(rmq: Run, topic: str, tmp_path: Path) -> None:
    group = f"G_{topic}"
    for queue in range(4):
        rmq("send", topic, "-q", str(queue), stdin=b"a\nb\nc\n")
    reset = ["offsets", "reset", group, topic, "--yes", "--to"]
    moved = rmq(*reset, "end")
    assert moved.code == 0
    assert offsets(rmq, group) == [3] * 4
    plan = rmq("offsets", "reset", group, topic, "--to", "start", "--dry-run")
    assert plan.lines == [["broker-a", str(queue), "3", "0", "3", "0"] for queue in range(4)]
    assert "12 messages will be consumed again, 0 skipped" in plan.err
    assert offsets(rmq, group) == [3] * 4
    back = rmq(*reset, "-2", "-q", "1", "--json").json
    assert (back["replayed"], back["skipped"], back["moved"]) == (2, 0, 1)
    assert offsets(rmq, group) == [3, 1, 3, 3]
    undo = json.loads(Path(back["undo"]).read_text())
    assert undo["queues"] == [{"brokerName": "broker-a", "queueId": 1, "old": 3, "new": 1}]
    assert undo["command"].startswith(f"rmq offsets reset --undo {back['undo']} -n ")
    assert rmq("offsets", "reset", "--undo", back["undo"], "--yes").code == 0
    assert offsets(rmq, group) == [3] * 4
    assert rmq(*reset, "0").code == 0
    assert offsets(rmq, group) == [0] * 4
    assert rmq(*reset, "+1").code == 0
    assert rmq(*reset, "@-1h").code == 0
    assert offsets(rmq, group) == [0] * 4


def test_a_group_that_never_consumed_can_be_put_at_the_start(rmq: Run, topic: str) -> None:
    assert rmq("offsets", "reset", f"G_{topic}", topic, "--to", "start", "--yes").code == 0
    assert offsets(rmq, f"G_{topic}") == [0] * 4


def test_offsets_that_were_not_asked_for_twice(rmq: Run, topic: str) -> None:
    rmq("send", topic, "x")
    refused = rmq("offsets", "reset", "G1", topic, "--to", "end")
    assert refused.code == ExitCode.USAGE
    assert "--yes" in refused.err


def test_groups(rmq: Run, topic: str) -> None:
    group = f"G_{topic}"
    rmq("send", topic, "-q", "0", stdin=b"a\nb\nc\n")
    rmq("offsets", "reset", group, topic, "--to", "1", "-q", "0", "--yes")
    described = rmq("group", "describe", group, "--json").json
    assert (described["group"], described["online"], described["clients"]) == (group, False, [])
    assert [queue["lag"] for queue in described["queues"] if queue["queueId"] == 0] == [2]
    assert rmq("group", "describe", group).lines[0][:6] == [topic, "broker-a", "0", "1", "3", "2"]
    assert rmq("group", "describe", "no_such_group").code == ExitCode.NOT_FOUND
    assert rmq("offsets", "show", "no_such_group").code == ExitCode.NOT_FOUND
    assert rmq("group", "list").code == 0


@pytest.mark.parametrize("command", ["pull", "tail", "query --key k", "consume -g g"])
def test_a_format_excludes_json(rmq: Run, topic: str, command: str) -> None:
    name, *options = command.split()
    result = rmq(name, topic, *options, "--json", "-f", "%v")
    assert (result.code, result.error["message"]) == (2, "--format and --json cannot be combined")


def test_a_message_of_another_topic_is_told_as_such(rmq: Run, topic: str) -> None:
    line = rmq("send", topic, "x", "--json").json_line
    rmq("topic", "create", "another", "--queues", "1")
    result = rmq("query", "another", "--id", line["offsetMsgId"])
    assert result.code == 0
    assert result.err == f"rmq: {line['msgId']} belongs to topic {topic}\n"


def test_a_plan_shows_large_numbers_in_one_way(rmq: Run, topic: str) -> None:
    rmq("send", topic, "--batch", "100", stdin=b"x\n" * 1500)
    reset = ("offsets", "reset", f"G_{topic}", topic, "--to")
    rmq(*reset, "start", "--yes")
    assert "0 messages will be consumed again, 1,500 skipped" in rmq(*reset, "end", "--dry-run").err
    rmq(*reset, "end", "--yes")
    assert "1,500 messages will be consumed again, 0 skipped" in rmq(*reset, "start", "--dry-run").err


def test_a_queue_that_could_not_be_read_to_its_end_is_no_success(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker returns messages and says that the next pull is to start where this one did."""

    def stuck(broker: Any, request: Any) -> Any:
        reply: Any = pull(broker, request)
        if not isinstance(reply, bytes):
            return reply
        command = decode_frame(reply[4:])
        command.ext_fields = {
            **(command.ext_fields or {}),
            "nextBeginOffset": str(request.header.queue_offset),
        }
        return encode_frame(command)

    monkeypatch.setitem(HANDLERS, RequestCode.PULL_MESSAGE, serve(PULL_MESSAGE, stuck))
    with embedded_in_thread() as cluster:
        address = ("-n", cluster.namesrv, "--timeout", "30")
        assert cli(*address, "topic", "create", "orders").code == 0
        cli(*address, "send", "orders", "--queue", "0", stdin=b"one\ntwo\n")
        pulled = cli(*address, "pull", "orders", "--queue", "0", "-f", "%v\\n")
    assert (pulled.code, pulled.out) == (ExitCode.PARTLY, b"one\ntwo\n")
    assert "no messages at offset 0, although the queue ended at 2" in pulled.err


def test_counts_of_one_are_singular(rmq: Run, topic: str) -> None:
    rmq("send", topic, "x", "--queue", "0")
    assert rmq("pull", topic, "--queue", "0", "-v").err.endswith("rmq: 1 message from 1 queue\n")
