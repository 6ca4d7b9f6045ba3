"""`rmq consume` against a running cluster: messages printed, acknowledged, passed to commands, or left."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.cli.waiting import until
from tests.support import PATIENCE, RMQ

IDLE = ("--idle", "1", "--from", "start")
"""Ends a consumer that has nothing to do, and on a busy machine one that has not begun: see `until`."""


def send(rmq: Run, topic: str, *bodies: str, options: tuple[str, ...] = ()) -> None:
    assert rmq("send", topic, *options, stdin="".join(f"{body}\n" for body in bodies).encode()).code == 0


def test_each_message_is_printed_once_and_acknowledged(rmq: Run, topic: str) -> None:
    send(rmq, topic, *map(str, range(20)))
    consume = ("consume", topic, "-g", f"g_{topic}", "--from", "start")
    first = rmq(*consume, "-c", "20", "-f", r"%v\n")
    assert first.code == 0
    assert sorted(map(int, first.out.split())) == list(range(20))
    assert rmq(*consume, "--idle", "1").out == b""
    send(rmq, topic, "20")
    again = rmq(*consume, "-c", "1", "--json", "-v")
    assert [line["body"] for line in again.json_lines] == ["20"]
    assert "rmq: 1 message\n" in again.err


def test_a_count_leaves_the_rest_to_the_group(rmq: Run, topic: str) -> None:
    send(rmq, topic, *map(str, range(30)), options=("-q", "1"))
    parts = [
        rmq("consume", topic, "-g", f"g_{topic}", "--from", "start", "-c", "10", "-f", r"%v\n").out.split()
        for _ in range(3)
    ]
    assert [[int(body) for body in part] for part in parts] == [
        list(range(start, start + 10)) for start in (0, 10, 20)
    ]


def test_a_count_of_popped_messages(rmq: Run) -> None:
    topic, group = "lent_in_parts", "movers"
    assert rmq("topic", "create", topic).code == 0
    send(rmq, topic, *map(str, range(30)))
    assert rmq("group", "mode", group, topic, "pop", "--yes").code == 0
    consume = ("consume", topic, "-g", group, "--pop", "--from", "start", "-c", "10", "--json")
    lines = [line for _ in range(3) for line in rmq(*consume).json_lines]
    assert sorted(int(line["body"]) for line in lines) == list(range(30))
    assert {line["reconsumeTimes"] for line in lines} == {0}


def test_what_a_broker_refuses_is_no_empty_group(rmq: Run, topic: str) -> None:
    send(rmq, topic, "a")
    group = f"g_{topic}"[:120]
    assert rmq("group", "create", group, "--no-consume").code == 0
    for options in (IDLE, (*IDLE, "--orderly")):
        done = rmq("consume", topic, "-g", group, *options)
        assert (done.code, done.out) == (ExitCode.NOT_PERMITTED, b"")
        assert "subscription group no permission" in done.err.splitlines()[-1]


def test_in_order_and_with_tags(rmq: Run, topic: str) -> None:
    send(rmq, topic, "-1", options=("-q", "2", "-t", "B"))
    send(rmq, topic, *map(str, range(30)), options=("-q", "2", "-t", "A"))
    consume = ("consume", topic, "-g", f"g_{topic}", "--from", "start", "--orderly", "-t", "A || C")
    done = rmq(*consume, "-c", "30", "-f", r"%v\n")
    assert [int(body) for body in done.out.split()] == list(range(30))


def test_broadcasting_keeps_its_place_in_a_file(
    rmq: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    send(rmq, topic, "a")
    arguments = (
        "consume",
        topic,
        "-g",
        f"g_{topic}",
        "--broadcast",
        "--from",
        "start",
        "-c",
        "1",
        "-f",
        r"%v\n",
    )
    assert rmq(*arguments).out == b"a\n"
    send(rmq, topic, "b")
    assert rmq(*arguments).out == b"b\n"
    (file,) = (tmp_path / ".rocketmq_offsets").rglob("offsets.json")
    assert file.parent.name == f"g_{topic}"


def test_a_command_gets_each_body_and_its_failure_brings_the_message_again(
    rmq: Run, topic: str, tmp_path: Path
) -> None:
    send(rmq, topic, "x", "y", options=("-t", "paid"))
    log = tmp_path / "log"
    script = f'cat >> {log}; echo " $RMQ_TAG $RMQ_RECONSUME_TIMES" >> {log}; test ! -e {tmp_path}/fail'
    consume = ("consume", topic, "-g", f"g_{topic}", "--exec", script)
    done = rmq(*consume, "--from", "start", "-c", "2")
    assert done.code == 0
    assert sorted(log.read_text().splitlines()) == ["x paid 0", "y paid 0"]
    (tmp_path / "fail").touch()
    send(rmq, topic, "z", options=("-t", "paid"))
    until(rmq, lambda result: "status 1" in result.err, *consume, *IDLE)
    assert log.read_text().splitlines()[-1] == "z paid 0"
    group = rmq("group", "describe", f"g_{topic}")
    assert group.code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--from", "middle"), ExitCode.USAGE),
        (("--balance", "unfairly"), ExitCode.USAGE),
        (("--from", "@yesterday-ish"), ExitCode.USAGE),
        (("--tag", "A", "--where", "a > 1"), ExitCode.USAGE),
        (("--exec", "true", "-f", "%v"), ExitCode.USAGE),
        (("--reply",), ExitCode.USAGE),
        (("--exec", ""), ExitCode.USAGE),
        (("--exec", " "), ExitCode.USAGE),
        (("--jobs", "2"), ExitCode.USAGE),
        (("--broadcast", "--retries", "2"), ExitCode.USAGE),
        (("--broadcast", "--pop"), ExitCode.USAGE),
        (("--from", "@2024-01-01", "--pop"), ExitCode.USAGE),
        (("--idle", "nan"), ExitCode.USAGE),
    ],
)
def test_what_makes_no_sense(rmq: Run, topic: str, arguments: tuple[str, ...], code: ExitCode) -> None:
    assert rmq("consume", topic, "-g", "g", *arguments).code == code


def test_a_topic_that_does_not_exist(rmq: Run) -> None:
    assert rmq("consume", "NoSuchTopic", "-g", "g").code == ExitCode.NOT_FOUND


def test_nobody_listens(cli: Run) -> None:
    assert cli("consume", "T", "-g", "g", "-n", "127.0.0.1:1").code == ExitCode.NO_CONNECTION


def test_what_is_refused_again_and_again_is_told_once(
    rmq: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    send(rmq, topic, "a")
    group = f"g_{topic}"
    assert rmq("group", "create", group, "--no-broadcast").code == 0
    consume = ("consume", topic, "-g", group, "--broadcast", "--from", "start", "--idle", "2.5", "-f", "%v")
    done = until(rmq, lambda result: result.err.count("\n") > 4, *consume)
    assert done.code == ExitCode.NOT_PERMITTED
    *lines, end = done.err.splitlines()
    assert end.endswith(" can not consume by broadcast way")
    assert all(line.startswith(f"rmq: pulling {topic}@broker-a:") for line in lines)
    assert all("can not consume by broadcast way" in line for line in lines)
    assert len({line.split()[2] for line in lines}) == len(lines) == 4
    refusal = f"rmqcli.client.outages: pulling {topic}@broker-a:0"
    until(rmq, lambda result: result.err.count(refusal) > 1, "-v", *consume)


@contextmanager
def consuming(cluster: Cluster, topic: str, stdout: int) -> Iterator[subprocess.Popen[str]]:
    """A process that prints the bodies of all messages."""
    command = [*RMQ, "consume", topic, "-g", f"g_{topic}", "-n", cluster.namesrv]
    command += ["--from", "start", "-f", r"%v\n"]
    with subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True) as consumer:
        try:
            yield consumer
        finally:
            consumer.kill()


def acknowledged(rmq: Run, topic: str) -> int:
    return sum(int(row[3]) for row in rmq("offsets", "show", f"g_{topic}", "-T", topic).lines)


def test_what_the_reader_of_a_pipe_took_is_acknowledged(rmq: Run, cluster: Cluster, topic: str) -> None:
    """Bytes that wait in the pipe when the reader leaves are nobody's, nor is half a message."""
    send(rmq, topic, *(f"message-{number:02}" for number in range(40)), options=("-q", "0"))
    reader, writer = os.pipe()
    with consuming(cluster, topic, writer) as consumer:
        os.close(writer)
        taken = b""
        while len(taken) < 2 * len(b"message-00\n") + 3:
            taken += os.read(reader, 1)
        os.close(reader)
        _, said = consumer.communicate(timeout=PATIENCE)
    assert (consumer.returncode, said, taken) == (0, "", b"message-00\nmessage-01\nmes")
    assert acknowledged(rmq, topic) == 2


def test_a_pipe_without_a_reader_ends_a_consumer_that_has_nothing_to_write(
    rmq: Run, cluster: Cluster, topic: str
) -> None:
    send(rmq, topic, "only")
    reader, writer = os.pipe()
    with consuming(cluster, topic, writer) as consumer:
        os.close(writer)
        assert os.read(reader, 100) == b"only\n"
        os.close(reader)
        assert consumer.wait(PATIENCE) == 0
    assert rmq("group", "describe", f"g_{topic}", "-T", topic, "--json").json["clients"] == []
    assert acknowledged(rmq, topic) == 1


def test_what_a_command_prints_is_the_reply(rmq: Run, cluster: Cluster, topic: str) -> None:
    script = 'test "$(tee /dev/stderr)" = hello && echo "from $RMQ_TOPIC"'
    command = [*RMQ, "consume", topic, "-g", f"g_{topic}", "-n", cluster.namesrv]
    command += ["--from", "start", "--exec", script, "--reply", "-c", "2"]
    send(rmq, topic, "hello")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as consumer:
        asked = rmq("--timeout", "30", "request", topic, "hello")
        assert (asked.code, asked.out) == (0, f"from {topic}\n".encode())
        _, said = consumer.communicate(timeout=PATIENCE)
    assert consumer.returncode == 0
    assert "was not replied to" in said


def test_what_fails_in_a_broadcast_does_not_come_again(
    rmq: Run, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    send(rmq, topic, "bad")
    consume = ("consume", topic, "-g", f"g_{topic}", *IDLE, "--broadcast", "--exec", "kill -9 $$")
    done = until(rmq, lambda result: result.err != "", *consume)
    assert "retried" not in done.err
    first, second, last = done.err.splitlines()
    assert first.endswith(" failed: killed by SIGKILL")
    assert second.endswith(" was not consumed and is dropped")
    assert last == "rmq: 0 messages consumed, 1 command failed"


def test_the_retries_of_the_group_hold_unless_others_are_given(rmq: Run, topic: str) -> None:
    group = f"g_{topic}"
    rmq("group", "create", group, "--retries", "0")
    for body, given, fate in (
        ("bad", (), "is now a dead letter"),
        ("worse", ("--retries", "1"), "will be retried"),
    ):
        send(rmq, topic, body)
        consume = ("consume", topic, "-g", group, *IDLE, "--exec", "false", *given)
        until(rmq, lambda result: f"{fate}: status 1" in result.err, *consume)  # noqa: B023
    assert rmq("pull", f"%DLQ%{group}", "-f", r"%v\n").out.splitlines()[0] == b"bad"


def test_what_fails_too_often_is_a_dead_letter(rmq: Run, topic: str) -> None:
    send(rmq, topic, "bad")
    consume = ("consume", topic, "-g", f"g_{topic}", *IDLE, "--exec", "false", "--retries", "0")
    until(rmq, lambda result: "is now a dead letter: status 1" in result.err, *consume)
    assert rmq("pull", f"%DLQ%g_{topic}", "-f", r"%v\n").out == b"bad\n"
