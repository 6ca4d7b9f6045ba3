"""Pulling and offsets: statuses, long poll, tags, compression, slaves, errors."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import assert_checkpoints, assert_no_checkpoints

from rmqcli.client import (
    BrokerRefused,
    ConnectionFailed,
    CorruptReply,
    GroupNotFound,
    InvalidRequest,
    NoRoute,
    NotFound,
    NotPermitted,
    PullConsumer,
    PullStatus,
    RequestTimeout,
    TopicNotFound,
    UnexpectedReply,
)
from rmqcli.client.wire.messages import SMALL_PACKED, SMALL_PLAIN, read_messages
from rmqcli.codec.codes import PullSysFlag, RequestCode, ResponseCode
from rmqcli.codec.compression import compress
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.offsets import UpdateConsumerOffsetRequestHeader
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import Network, Reply, Server, ok, refuse, route, silent
from tests.codec.samples import make_record

NAMESRV, MASTER, SLAVE = "ns:9876", "m:10911", "s:10911"
TOPIC = "T"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
PULL = RequestCode.PULL_MESSAGE


def record(offset: int, body: bytes = b"hi", tags: str | None = None, sys_flag: int = 0) -> bytes:
    properties = {"UNIQ_KEY": f"id{offset}"} | ({"TAGS": tags} if tags else {})
    return make_record(
        topic=TOPIC.encode(),
        queue_id=0,
        queue_offset=offset,
        sys_flag=sys_flag,
        body=body,
        properties=encode_properties(properties),
    )


def pulled(code: int, body: bytes = b"", suggest: int = 0, following: int = 10) -> Reply:
    fields = {"suggestWhichBrokerId": suggest, "nextBeginOffset": following, "minOffset": 1, "maxOffset": 20}
    return lambda command: command.reply(
        code, "FOUND", {name: str(value) for name, value in fields.items()}, body
    )


class Cluster:
    def __init__(self, network: Network) -> None:
        self.network = network
        brokers = {"broker-a": {0: MASTER, 1: SLAVE}}
        self.namesrv = network.server(
            NAMESRV, {RequestCode.GET_ROUTEINFO_BY_TOPIC: route({TOPIC: {"broker-a": 2}}, brokers)}
        )
        self.master = network.server(MASTER)
        self.slave = network.server(SLAVE)


@pytest.fixture
def cluster(network: Network) -> Cluster:
    return Cluster(network)


@asynccontextmanager
async def consuming(cluster: Cluster, group: str | None = None) -> AsyncIterator[PullConsumer]:
    async with PullConsumer(group, namesrv=NAMESRV, open_stream=cluster.network.open_stream) as consumer:
        yield consumer


def pull_header(server: Server) -> PullMessageRequestHeader:
    return from_ext(PullMessageRequestHeader, next(c for c in server.asked if c.code == PULL).ext_fields)


async def test_queues_of_a_topic(cluster: Cluster, autojump_clock: Any) -> None:
    async with consuming(cluster) as consumer:
        assert await consumer.message_queues(TOPIC) == [QUEUE, MessageQueue(TOPIC, "broker-a", 1)]
        with pytest.raises(NoRoute, match="topic Unknown not found on name server"):
            await consumer.message_queues("Unknown")


async def test_pull_found(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.replies[PULL] = pulled(0, record(8) + record(9))
    async with consuming(cluster) as consumer:
        result = await consumer.pull(QUEUE, 8, 16)
    header = pull_header(cluster.master)
    assert result.status is PullStatus.FOUND
    assert [m.queue_offset for m in result.messages] == [8, 9]
    assert {m.broker_name for m in result.messages} == {"broker-a"}
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (10, 1, 20)
    assert (header.queue_offset, header.max_msg_nums, header.consumer_group) == (8, 16, "TOOLS_CONSUMER")
    assert (header.sys_flag, header.subscription, header.commit_offset) == (PullSysFlag.SUBSCRIPTION, "*", 0)


@pytest.mark.parametrize(
    ("code", "status"), [(19, "NO_NEW_MSG"), (20, "NO_MATCHED_MSG"), (21, "OFFSET_ILLEGAL")]
)
async def test_statuses_without_messages(
    cluster: Cluster, code: int, status: str, autojump_clock: Any
) -> None:
    cluster.master.replies[PULL] = pulled(code, following=3)
    async with consuming(cluster) as consumer:
        result = await consumer.pull(QUEUE, 99)
    assert (result.status, result.next_begin_offset, result.messages) == (PullStatus[status], 3, [])


@pytest.mark.parametrize(
    ("code", "error"),
    [(16, NotPermitted), (17, TopicNotFound), (26, GroupNotFound), (1, BrokerRefused), (23, BrokerRefused)],
)
async def test_refusal_is_never_an_empty_result(
    cluster: Cluster, code: int, error: type[Exception], autojump_clock: Any
) -> None:
    cluster.master.replies[PULL] = refuse(code, "the reason")
    async with consuming(cluster) as consumer:
        with pytest.raises(
            error, match=rf"m:10911 refused PULL_MESSAGE: {ResponseCode(code).name} \({code}\): the reason"
        ):
            await consumer.pull(QUEUE, 0)


async def test_tags_are_compared_again(cluster: Cluster, autojump_clock: Any) -> None:
    # "Aa" and "BB" have the same hash
    records = record(8, tags="Aa") + record(9, tags="BB") + record(10)
    cluster.master.replies[PULL] = pulled(0, records, following=11)
    async with consuming(cluster) as consumer:
        result = await consumer.pull(QUEUE, 8, expression="Aa || C")
        with pytest.raises(InvalidRequest, match="no tag"):
            await consumer.pull(QUEUE, 8, expression="||")
    assert [m.queue_offset for m in result.messages] == [8]
    assert result.next_begin_offset == 11


@pytest.mark.parametrize(
    ("said", "following", "taken"),
    [
        ([8, 9], 10, [8, 9]),
        ([10, 14], 20, [10, 14]),
        ([8, 1 << 40, 10], 11, [8, 9, 10]),
        ([8, -1, 10], 11, [8, 9, 10]),
        ([8, 10, 9], 11, [8, 9, 10]),
        ([0, 0, 0], 20, [8, 9, 10]),
        ([8, 19, 10], 20, [8, 9, 10]),
    ],
)
async def test_a_queue_offset_that_cannot_be_is_not_believed(
    cluster: Cluster, said: list[int], following: int, taken: list[int], autojump_clock: Any
) -> None:
    """No CRC covers it. It would be acknowledged, and all before it."""
    records = b"".join(record(offset) for offset in said)
    cluster.master.replies[PULL] = pulled(0, records, following=following)
    async with consuming(cluster) as consumer:
        result = await consumer.pull(QUEUE, 8)
    assert [m.queue_offset for m in result.messages] == taken


async def test_offsets_of_static_topics_are_those_of_the_queue(cluster: Cluster, autojump_clock: Any) -> None:
    fields = {"suggestWhichBrokerId": 0, "nextBeginOffset": 110, "minOffset": 0, "maxOffset": 120}
    ext = {name: str(value) for name, value in fields.items()} | {"offsetDelta": "100"}
    cluster.master.replies[PULL] = lambda command: command.reply(0, "FOUND", ext, record(8) + record(9))
    async with consuming(cluster) as consumer:
        result = await consumer.pull(QUEUE, 108)
    assert [m.queue_offset for m in result.messages] == [108, 109]


async def test_more_messages_than_offsets_are_refused(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.replies[PULL] = pulled(0, record(8) + record(9) + record(10), following=10)
    async with consuming(cluster) as consumer:
        with pytest.raises(CorruptReply, match="3 messages at queue offsets from 8 to below 10"):
            await consumer.pull(QUEUE, 8)


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
async def test_bodies_come_decompressed(cluster: Cluster, kind: str, autojump_clock: Any) -> None:
    packed, bits = compress(b"abc" * 1000, kind)
    cluster.master.replies[PULL] = pulled(0, record(8, packed, sys_flag=bits))
    async with consuming(cluster) as consumer:
        result = await consumer.pull(QUEUE, 8)
    assert result.messages[0].body == b"abc" * 1000


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"no zlib", "zlib body"), (compress(bytes(1 << 16), "zlib")[0][:-9], "cut short"), (b"", "")],
)
async def test_a_body_with_a_wrong_flag_delays_no_other_message(
    cluster: Cluster, body: bytes, reason: str, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    packed, bits = compress(b"abc" * 1000, "zlib")
    cluster.master.replies[PULL] = pulled(
        0, record(7) + record(8, body, sys_flag=1) + record(9, packed, sys_flag=bits)
    )
    async with consuming(cluster) as consumer:
        result = await consumer.pull(QUEUE, 7)
    assert [message.body for message in result.messages] == [b"hi", body, b"abc" * 1000]
    assert {message.broker_name for message in result.messages} == {"broker-a"}
    (line,) = caplog.messages
    assert line.startswith("T@broker-a:0, offset 8: ") and reason in line


async def test_messages_that_are_too_long_together_are_left_for_the_next_pull() -> None:
    packed, bits = compress(b"abc" * 1000, "zlib")
    bomb, bomb_bits = compress(bytes(6000), "zlib")
    stored = [record(7, b"plain"), record(8, packed, sys_flag=bits), record(9, b"plain"), record(10, b"last")]
    stored.insert(3, record(11, packed, sys_flag=bits))
    reading = await read_messages(b"".join(stored), "broker-a", limit=5000)
    assert [message.body for message in reading.messages] == [b"plain", b"abc" * 1000, b"plain"]
    assert reading.cut_at == 11
    with pytest.raises(CorruptReply, match="ask for fewer"):
        reading.whole("broker-a")
    alone = await read_messages(
        record(7, bomb, sys_flag=bomb_bits) + record(8, packed, sys_flag=bits), "broker-a", limit=5000
    )
    assert [message.body for message in alone.whole("broker-a")] == [bomb, b"abc" * 1000]


async def test_inner_batches_of_5_are_their_messages(
    cluster: Cluster, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker replies with the whole record also to a pull from its middle."""
    inner = encode_batch([Message.of(TOPIC, f"m{number}", tags="AB"[number % 2]) for number in range(4)])
    body = record(5, inner, "A", sys_flag=0xC0) + record(9, b"alone", "A") + record(10, b"odd", sys_flag=0xC0)
    cluster.master.replies[PULL] = pulled(0, body, following=11)
    async with consuming(cluster) as consumer:
        tagged = await consumer.pull(QUEUE, 6, 32, "A")
        result = await consumer.pull(QUEUE, 6)
    assert [(one.queue_offset, one.body) for one in tagged.messages] == [(7, b"m2"), (9, b"alone")]
    found = [(one.queue_offset, one.body, one.sys_flag) for one in result.messages]
    assert found == [
        (6, b"m1", 0),
        (7, b"m2", 0),
        (8, b"m3", 0),
        (9, b"alone", 0),
        (10, b"odd", 0xC0),
    ]
    assert {one.broker_name for one in result.messages} == {"broker-a"}
    assert "offset 10: batch item at 0 is cut short; it is shown as stored" in caplog.messages[0]


async def test_many_inner_messages_are_taken_apart_in_a_worker() -> None:
    inner = encode_batch([Message.of(TOPIC, bytes(1000))] * 200)
    with assert_checkpoints():
        messages = (await read_messages(record(7, inner, sys_flag=0xC0), "broker-a")).messages
    assert [message.queue_offset for message in messages] == list(range(7, 207))


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
@pytest.mark.parametrize("size", [SMALL_PLAIN + 1, 4 * SMALL_PLAIN])
async def test_much_is_decompressed_in_a_worker_in_order(kind: str, size: int) -> None:
    """Also few bytes that expand to many."""
    plain = random.Random(1).randbytes(size // 8).hex().encode() * 5
    packed, bits = compress(plain, kind)
    bomb, bomb_bits = compress(bytes(size), kind)
    stored = record(7, b"first") + record(8, packed, sys_flag=bits) + record(9, b"last")
    with assert_checkpoints():
        messages = (await read_messages(stored, "broker-a")).messages
    assert [message.body for message in messages] == [b"first", plain, b"last"]
    assert {message.broker_name for message in messages} == {"broker-a"}
    assert len(bomb) < SMALL_PACKED
    with assert_checkpoints():
        (message,) = (await read_messages(record(1, bomb, sys_flag=bomb_bits), "broker-a")).messages
    assert message.body == bytes(size)


async def test_little_is_decompressed_at_once() -> None:
    packed, bits = compress(b"abc" * 1000, "zlib")
    with assert_no_checkpoints():
        reading = await read_messages(record(7, packed, sys_flag=bits) * 3 + record(9), "broker-a")
    assert len(reading.messages) == 4


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND])
async def test_a_negative_next_offset_is_reported(cluster: Cluster, autojump_clock: Any, code: int) -> None:
    cluster.master.replies[PULL] = pulled(code, following=-5)
    async with consuming(cluster) as consumer:
        with pytest.raises(UnexpectedReply, match="-5 is the offset of the next pull"):
            await consumer.pull(QUEUE, 8)


async def test_damaged_messages_are_reported(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.replies[PULL] = pulled(0, record(8)[:-3])
    async with consuming(cluster) as consumer:
        with pytest.raises(CorruptReply, match="broker-a sent damaged messages"):
            await consumer.pull(QUEUE, 8)


async def test_long_poll_waits_longer_than_a_request(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.replies[PULL] = silent
    async with consuming(cluster) as consumer:
        started = trio.current_time()
        with pytest.raises(RequestTimeout):
            await consumer.pull(QUEUE, 8, suspend=20.0)
        assert trio.current_time() - started == pytest.approx(23.0)
    header = pull_header(cluster.master)
    assert header.sys_flag == PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND
    assert header.suspend_timeout_millis == 20_000


async def test_reply_that_comes_late_in_a_long_poll(cluster: Cluster, autojump_clock: Any) -> None:
    asked: list[RemotingCommand] = []

    def hold(command: RemotingCommand) -> None:
        asked.append(command)

    cluster.master.replies[PULL] = hold
    results: list[Any] = []
    async with consuming(cluster) as consumer, trio.open_nursery() as nursery:

        async def pull() -> None:
            results.append(await consumer.pull(QUEUE, 8, suspend=15.0))

        nursery.start_soon(pull)
        await trio.sleep(14)
        reply = pulled(0, record(8))(asked[0])
        assert isinstance(reply, RemotingCommand)
        await cluster.master.push(reply)
    assert len(results[0].messages) == 1


async def test_slave_is_read_when_the_master_is_gone(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.refuses = True
    cluster.slave.replies[PULL] = pulled(0, record(8))
    cluster.slave.replies[RequestCode.GET_MAX_OFFSET] = ok({"offset": "9"})
    async with consuming(cluster) as consumer:
        assert len((await consumer.pull(QUEUE, 8)).messages) == 1
        assert await consumer.max_offset(QUEUE) == 9


async def test_suggested_broker_is_asked_next(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.replies[PULL] = pulled(0, record(8), suggest=1)
    cluster.slave.replies[PULL] = pulled(0, record(9), suggest=1)
    async with consuming(cluster) as consumer:
        first = await consumer.pull(QUEUE, 8)
        second = await consumer.pull(QUEUE, 9)
    assert [m.queue_offset for m in first.messages + second.messages] == [8, 9]


async def test_no_broker_is_reachable(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.refuses = cluster.slave.refuses = True
    async with consuming(cluster) as consumer:
        with pytest.raises(ConnectionFailed, match="cannot connect to s:10911"):
            await consumer.pull(QUEUE, 0)


async def test_offsets_of_a_queue(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.replies |= {
        RequestCode.GET_MIN_OFFSET: ok({"offset": "3"}),
        RequestCode.GET_MAX_OFFSET: ok({"offset": "9"}),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda c: c.reply(
            0, None, {"offset": (c.ext_fields or {})["timestamp"]}
        ),
        RequestCode.GET_EARLIEST_MSG_STORETIME: ok({"timestamp": "-1"}),
    }
    async with consuming(cluster) as consumer:
        assert await consumer.min_offset(QUEUE) == 3
        assert await consumer.max_offset(QUEUE) == 9
        assert await consumer.search_offset(QUEUE, 77) == 77
        assert await consumer.earliest_store_time(QUEUE) == -1


async def test_committed_offset(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.replies[RequestCode.QUERY_CONSUMER_OFFSET] = ok({"offset": "0"})
    async with consuming(cluster, "G") as consumer:
        assert await consumer.committed(QUEUE) == 0
        cluster.master.replies[RequestCode.QUERY_CONSUMER_OFFSET] = refuse(22)
        assert await consumer.committed(QUEUE) is None
        cluster.master.replies[RequestCode.QUERY_CONSUMER_OFFSET] = refuse(1)
        with pytest.raises(BrokerRefused):
            await consumer.committed(QUEUE)


@pytest.mark.parametrize("oneway", [False, True])
async def test_commit(cluster: Cluster, oneway: bool, autojump_clock: Any) -> None:
    cluster.master.replies[RequestCode.UPDATE_CONSUMER_OFFSET] = ok()
    async with consuming(cluster, "G") as consumer:
        await consumer.commit(QUEUE, 0, oneway=oneway)
        await trio.testing.wait_all_tasks_blocked()
    request = cluster.master.asked[0]
    header = from_ext(UpdateConsumerOffsetRequestHeader, request.ext_fields)
    assert (header.consumer_group, header.queue_id, header.commit_offset) == ("G", 0, 0)
    assert request.is_oneway is oneway


async def test_queue_of_a_broker_that_the_topic_lacks(cluster: Cluster, autojump_clock: Any) -> None:
    async with consuming(cluster) as consumer:
        with pytest.raises(NotFound, match="topic T has no queue on broker elsewhere"):
            await consumer.max_offset(MessageQueue(TOPIC, "elsewhere", 0))


async def test_reading_joins_no_group_and_moves_no_offset(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.master.replies[PULL] = pulled(0, record(8))
    async with consuming(cluster, "G") as consumer:
        await consumer.pull(QUEUE, 8)
        await trio.sleep(100)
    assert set(cluster.master.codes()) == {PULL}
