"""Trace records of a push consumer."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rmqcli.client import ConsumeResult, OrderlyResult
from rmqcli.client.trace.records import ConsumeEnd, ConsumeStart, ContextCode, TraceRecord, decode_trace
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.compression import decompress
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.message import MessageExt
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.push.consuming import GROUP, TOPIC, Taken, consumer
from tests.client.watched_cluster import EPOCH, WatchedCluster

TRACES = "RMQ_SYS_TRACE_TOPIC"


@pytest.fixture
def records(cluster: WatchedCluster) -> list[TraceRecord]:
    """All records of the trace messages that the broker received."""
    for topic in (TRACES, "own_traces"):
        cluster.create_topic(topic, 1)
    found: list[TraceRecord] = []

    def take(command: RemotingCommand) -> RemotingCommand | None:
        header = from_ext(SendMessageRequestHeaderV2, command.ext_fields)
        if header.topic not in (TRACES, "own_traces"):
            return None
        body = bytes(command.body)
        found.extend(decode_trace((decompress(body, header.sys_flag) if header.sys_flag else body).decode()))
        return command.reply(0, None, {"msgId": "0A" * 16, "queueId": "0", "queueOffset": "0"})

    cluster.trouble[RequestCode.SEND_MESSAGE_V2] = take
    return found


@pytest.mark.parametrize(
    ("orderly", "answer", "success", "code"),
    [
        (False, ConsumeResult.SUCCESS, True, ContextCode.SUCCESS),
        (False, ConsumeResult.RECONSUME_LATER, False, ContextCode.FAILED),
        (False, None, False, ContextCode.RETURN_NULL),
        (False, ValueError("no"), False, ContextCode.EXCEPTION),
        (True, OrderlyResult.SUCCESS, True, ContextCode.SUCCESS),
        (True, OrderlyResult.SUSPEND, False, ContextCode.FAILED),
        (True, OrderlyResult.COMMIT, True, ContextCode.SUCCESS),
        (True, OrderlyResult.ROLLBACK, False, ContextCode.FAILED),
    ],
)
async def test_each_call_of_a_listener_is_traced(
    cluster: WatchedCluster,
    records: list[TraceRecord],
    autojump_clock: Any,
    orderly: bool,
    answer: Any,
    success: bool,
    code: ContextCode,
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x", {"KEYS": "k", "UNIQ_KEY": "ID"})
    taken = Taken(answer)
    async with consumer(cluster, taken, orderly=orderly, trace=True, suspend_time=30.0):
        await trio.sleep(5)
        assert len(taken.messages) == 1
        start, end = records
    assert isinstance(start, ConsumeStart)
    assert isinstance(end, ConsumeEnd)
    assert start.timestamp >= EPOCH
    assert start[1:] == (None, GROUP, end.request_id, "ID", 0, "k")
    assert (end.msg_id, end.success, end.context_code, end.group) == ("ID", success, code, GROUP)


@pytest.mark.parametrize(
    ("answer", "code"), [(ConsumeResult.SUCCESS, ContextCode.TIME_OUT), (None, ContextCode.RETURN_NULL)]
)
async def test_a_late_end_is_recorded_as_time_out(
    cluster: WatchedCluster,
    records: list[TraceRecord],
    autojump_clock: Any,
    answer: ConsumeResult | None,
    code: ContextCode,
) -> None:
    async def slowly(messages: list[MessageExt], context: Any) -> ConsumeResult | None:
        await trio.sleep(2)
        return answer

    cluster.put(cluster.queue(TOPIC), b"x")
    async with consumer(cluster, slowly, trace=True, consume_timeout=1.5):
        await trio.sleep(3)
    assert [record.context_code for record in records if isinstance(record, ConsumeEnd)] == [code]


async def test_a_redelivered_message_has_its_retry_count(
    cluster: WatchedCluster, records: list[TraceRecord], autojump_clock: Any
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    async with consumer(cluster, Taken(ConsumeResult.RECONSUME_LATER), trace="own_traces"):
        await trio.sleep(60)
    assert [record.retry_times for record in records if isinstance(record, ConsumeStart)] == [0, 1]
    assert [record.success for record in records if isinstance(record, ConsumeEnd)] == [False, True]


async def test_leaving_writes_waiting_records(
    cluster: WatchedCluster, records: list[TraceRecord], autojump_clock: Any
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"x"] * 5)
    taken = Taken()
    async with consumer(cluster, taken, trace=True) as running:
        while len(taken.messages) < 5:
            await trio.testing.wait_all_tasks_blocked()
        assert not records
    assert len(records) == 10
    assert running.traces_dropped == 0
    assert not cluster.members(GROUP)


async def test_traces_that_no_broker_accepts_cost_no_message(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    cluster.put_many(cluster.queue(TOPIC), [b"x"] * 5)
    taken = Taken()
    async with consumer(cluster, taken, trace="missing") as running:
        await trio.sleep(10)
        assert running.traces_dropped == 10
    assert len(taken.messages) == 5
    assert cluster.committed(GROUP, TOPIC)[0] == 5


async def test_without_trace_nothing_is_written(
    cluster: WatchedCluster, records: list[TraceRecord], autojump_clock: Any
) -> None:
    cluster.put(cluster.queue(TOPIC), b"x")
    async with consumer(cluster, Taken()):
        await trio.sleep(5)
    assert not records
