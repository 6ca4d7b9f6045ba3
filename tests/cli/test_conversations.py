"""Transactions, requests and traces from the command line, against a running cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli import broker
from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.broker.testing.in_memory import LOST, Lost
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import ConsumeResult, Producer, PushConsumer, PushSettings
from rmqcli.client.instance import ClientInstance
from rmqcli.client.push.tracing import ConsumeTracer
from rmqcli.codec.message import Message, MessageExt, SystemTopic
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.commands.common.outcome import traces_outcome
from tests.cli.conftest import Result, Run
from tests.cli.waiting import has_rows, until
from tests.support import PATIENCE


def until_found(rmq: Run, *arguments: str) -> Result:
    """Traces are written some moments later."""
    return until(rmq, lambda result: result.code != ExitCode.NOT_FOUND, *arguments)


def test_a_committed_transaction_is_consumed(rmq: Run, topic: str) -> None:
    sent = rmq("send", topic, "paid", "-k", "k1", "--transaction", "commit")
    assert (sent.code, sent.lines[0][4]) == (0, "SEND_OK")
    (message,) = until(rmq, has_rows, "pull", topic, "--json").json_lines  # the end is told one-way
    assert (message["body"], message["msgId"], message["keys"]) == ("paid", sent.lines[0][3], ["k1"])


@pytest.mark.parametrize("end", ["rollback", "unknown"])
def test_what_is_not_committed_is_not_consumed(rmq: Run, topic: str, end: str) -> None:
    assert rmq("send", topic, "--transaction", end, stdin=b"a\nb\n").code == 0
    assert rmq("send", topic, "plain").code == 0
    assert [line["body"] for line in rmq("pull", topic, "--json").json_lines] == ["plain"]


@pytest.mark.parametrize(
    "options",
    [
        ["--transaction", "maybe"],
        ["--transaction", "commit", "--oneway"],
        ["--transaction", "commit", "--batch", "2"],
        ["--transaction", "commit", "-q", "0"],
        ["--transaction", "commit", "--delay-level", "3"],
        ["--transaction", "commit", "--broker", "broker-a"],
    ],
)
def test_transactions_exclude_what_they_cannot(cli: Run, options: list[str]) -> None:
    result = cli("send", "orders", "x", *options)
    assert result.code == ExitCode.USAGE
    assert "--transaction" in result.err


@contextmanager
def responder(cluster: Cluster, topic: str) -> Iterator[None]:
    """A consumer in another thread that answers every request in capitals."""
    ready, end = threading.Event(), trio.Event()
    token: list[trio.lowlevel.TrioToken] = []

    async def main() -> None:
        token.append(trio.lowlevel.current_trio_token())
        async with Producer(
            "answers", namesrv=cluster.namesrv, timeout=PATIENCE, send_timeout=PATIENCE
        ) as producer:

            async def answer(messages: list[MessageExt], context: object) -> ConsumeResult:
                for message in messages:
                    await producer.reply(message, message.body.upper(), properties={"own": "1"})
                return ConsumeResult.SUCCESS

            async with PushConsumer(
                f"g_{topic}",
                {topic: "*"},
                answer,
                settings=PushSettings(grace=0.0),
                namesrv=cluster.namesrv,
                timeout=PATIENCE,
            ):
                ready.set()
                await end.wait()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield
    finally:
        token[0].run_sync_soon(end.set)
        thread.join()


def test_a_request_is_answered(rmq: Run, cluster: Cluster, topic: str) -> None:
    with responder(cluster, topic):
        plain = rmq("request", topic, "hello", "-t", "a")
        json = rmq("request", topic, "again", "--json")
        formatted = rmq("request", topic, "third", "-f", r"%v %h{own}\n")
    assert (plain.code, plain.out) == (0, b"HELLO\n")
    assert (json.json_line["body"], json.json_line["properties"]["own"]) == ("AGAIN", "1")
    assert "offsetMsgId" not in json.json_line
    assert formatted.out == b"THIRD 1\n"


def test_a_request_that_nobody_answers(cli: Run, rmq: Run, cluster: Cluster, topic: str) -> None:
    """A busy machine may need longer for sending alone."""
    for seconds in ("1.5", "10", "60"):
        result = cli("-n", cluster.namesrv, "--timeout", seconds, "request", topic, "hello")
        assert result.code == ExitCode.TIMED_OUT
        if " did not answer " not in result.err:
            break
    assert f"of topic {topic} within {seconds} s" in result.err


def test_the_trace_of_a_message(rmq: Run, cluster: Cluster, topic: str) -> None:
    sent = rmq("send", topic, "hello", "-k", "k1", "--trace")
    msg_id = sent.lines[0][3]
    (row,) = until_found(rmq, "trace", msg_id).lines
    assert (row[0], row[1], row[2], row[5], row[7], row[8]) == (
        "sent",
        "rmq",
        "127.0.0.1",
        "success",
        topic,
        cluster.broker_address,
    )
    (message,) = rmq("query", topic, "--id", msg_id, "--json").json_lines

    async def consume() -> None:
        async with ClientInstance(cluster.namesrv, timeout=PATIENCE) as instance:
            tracer = ConsumeTracer(instance, "billing")
            await tracer.start()
            tracer.after(tracer.before([_stored(message)]), False)
            tracer.before([_stored(message)])
            await tracer.close()

    trio.run(consume)
    taken = rmq("consume", topic, "-g", f"g_{topic}", "--from", "start", "-c", "1", "--trace")
    assert (taken.code, taken.err) == (0, "")
    rows = rmq("trace", msg_id, "--json").json
    assert (rows[0]["what"], rows[0]["group"], rows[0]["status"]) == ("sent", "rmq", "success")
    assert sorted((row["what"], row["group"], row["status"], row["retries"]) for row in rows[1:]) == [
        ("consumed", "billing", "failed", 0),
        ("consumed", "billing", "unfinished", 0),
        ("consumed", f"g_{topic}", "success", 0),
    ]


def _stored(message: dict[str, Any]) -> MessageExt:
    return MessageExt(
        topic=message["topic"],
        queue_id=message["queueId"],
        queue_offset=message["queueOffset"],
        commit_log_offset=message["commitLogOffset"],
        flag=0,
        sys_flag=0,
        born_timestamp=message["bornTimestamp"],
        born_host=message["bornHost"],
        store_timestamp=message["storeTimestamp"],
        store_host=message["storeHost"],
        reconsume_times=0,
        prepared_transaction_offset=0,
        body_crc=0,
        store_size=0,
        body=b"",
        properties=message["properties"],
    )


def test_the_trace_of_a_transaction(rmq: Run, topic: str) -> None:
    sent = rmq("send", topic, "x", "--transaction", "rollback", "--trace")
    rows = until_found(rmq, "trace", sent.lines[0][3]).lines
    assert [(row[0], row[5]) for row in rows] == [("sent half", "success"), ("transaction", "rollback")]


def test_no_trace(rmq: Run, topic: str) -> None:
    rmq("send", topic, "x", "--trace")
    result = rmq("trace", "0" * 32)
    assert result.code == ExitCode.NOT_FOUND
    assert "no trace of message" in result.err
    missing = rmq("trace", "0" * 32, "--trace-topic", "no_such_traces")
    assert missing.code == ExitCode.NOT_FOUND
    assert missing.err.endswith(": topic no_such_traces not found\n")


def test_brokers_without_the_topic_of_traces(cli: Run) -> None:
    why = "topic RMQ_SYS_TRACE_TOPIC not found (enable it with traceTopicEnable=true on the brokers)\n"
    with embedded_in_thread(auto_create_topic_enable=False) as cluster:
        address = ("-n", cluster.namesrv, "--timeout", "30")
        result = cli(*address, "trace", "0" * 32)
        assert cli(*address, "topic", "create", "orders").code == 0
        sent = cli(*address, "send", "orders", "x", "--trace")
        consumed = cli(*address, "consume", "orders", "-g", "g", "--from", "start", "-c", "1", "--trace")
    assert (result.code, sent.code, consumed.code) == (ExitCode.NOT_FOUND, *[ExitCode.PARTLY] * 2)
    assert result.err.endswith(f": {why}")
    assert sent.err == f"rmq: 1 trace not written: {why}"
    assert (consumed.lines[0][-1], consumed.err) == ("x", f"rmq: 2 traces not written: {why}")


async def test_traces_that_could_not_be_written(
    autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker does not answer while more messages are sent than traces may wait."""

    async def lose(_: str, request: RemotingCommand) -> Lost | None:
        return LOST if SystemTopic.TRACE in (request.ext_fields or {}).values() else None

    async with broker.embedded_in_memory(on_request=lose) as cluster:
        async with Producer(trace=True, **cluster.client()) as producer:
            for number in range(2300):
                await producer.send(Message.of("orders", str(number)))
        assert traces_outcome(producer) is ExitCode.PARTLY
    assert capsys.readouterr().err == "rmq: 2,300 traces not written: too many at once\n"
