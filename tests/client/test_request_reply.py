"""Requests and replies: fields, matching, time-outs."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from rmqcli.client import BrokerRefused, InvalidRequest, ReplyTimeout, RequestTimeout, create_reply_message
from rmqcli.client.produce import request_reply
from rmqcli.client.wire.messages import SMALL_PLAIN
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.compression import compress, decompress
from rmqcli.codec.headers.base import from_ext, to_ext
from rmqcli.codec.headers.send import ReplyMessageRequestHeader, SendMessageRequestHeaderV2
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.properties import decode_properties, encode_properties
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame
from tests.client.scripted import Network, refuse, sent
from tests.client.sending import SEND, TOPIC, A, Cluster, producing
from tests.codec.samples import make_record
from tests.codec.wire import load_wire
from tests.support import PATIENCE

PUSH = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
REPLY_TOPIC = "C_REPLY_TOPIC"


@pytest.fixture
def cluster(network: Network) -> Cluster:
    return Cluster(network, {TOPIC: {"broker-a": 1}, REPLY_TOPIC: {"broker-a": 1}})


def properties_of(command: RemotingCommand) -> dict[str, str]:
    return decode_properties(from_ext(SendMessageRequestHeaderV2, command.ext_fields).properties or "")


def pushed(
    correlation_id: str, body: bytes = b"pong", sys_flag: int = 0, **properties: str
) -> RemotingCommand:
    header = ReplyMessageRequestHeader(
        producer_group="RG",
        topic=REPLY_TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=5,
        flag=0,
        born_host="10.0.0.9:4000",
        store_host="10.0.0.1:10911",
        store_timestamp=6,
        properties=encode_properties({"CORRELATION_ID": correlation_id, **properties}).decode(),
    )
    return RemotingCommand(PUSH, to_ext(header), body, 77)


def answering(cluster: Cluster, nursery: trio.Nursery, **reply: Any) -> Callable[[RemotingCommand], Any]:
    """A broker that pushes a reply before it acknowledges the request, as with a quick consumer."""

    def store(command: RemotingCommand) -> RemotingCommand:
        correlation_id = properties_of(command)["CORRELATION_ID"]
        nursery.start_soon(cluster.a.push, pushed(correlation_id, **reply))
        return sent(command)

    return store


async def test_a_request_and_its_reply(cluster: Cluster, nursery: trio.Nursery, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = answering(cluster, nursery, K="v")
    async with producing(cluster.network) as producer:
        reply = await producer.request(Message.of(TOPIC, b"ping", tags="t"), timeout=2.5)
        client_id = producer.instance.client_id
        await trio.testing.wait_all_tasks_blocked()
    named = properties_of(next(c for c in cluster.a.asked if c.code == SEND))
    assert named["REPLY_TO_CLIENT"] == client_id
    assert (named["TTL"], named["TAGS"]) == ("2500", "t")
    assert reply.body == b"pong"
    assert reply.properties["K"] == "v"
    assert reply.properties["CORRELATION_ID"] == named["CORRELATION_ID"]
    assert int(reply.properties["ARRIVE_TIME"]) > 0
    assert (reply.born_host, reply.store_host, reply.topic) == (
        "10.0.0.9:4000",
        "10.0.0.1:10911",
        REPLY_TOPIC,
    )
    # The broker was told who we are before it got the request
    codes = cluster.a.codes()
    assert codes.index(RequestCode.HEART_BEAT) < codes.index(SEND)


async def test_many_requests_get_their_own_replies(
    cluster: Cluster, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    waiting: list[tuple[str, bytes]] = []

    def store(command: RemotingCommand) -> RemotingCommand:
        waiting.append((properties_of(command)["CORRELATION_ID"], bytes(command.body)))
        return sent(command)

    cluster.a.replies[SEND] = store
    replies: dict[bytes, bytes] = {}

    async with producing(cluster.network) as producer:

        async def ask(body: bytes) -> None:
            replies[body] = (await producer.request(Message.of(TOPIC, body))).body

        async with trio.open_nursery() as asking:
            for number in range(10):
                asking.start_soon(ask, b"%d" % number)
            await trio.testing.wait_all_tasks_blocked()
            for correlation_id, body in reversed(waiting):
                await cluster.a.push(pushed(correlation_id, b"to " + body))
    assert replies == {b"%d" % number: b"to %d" % number for number in range(10)}


async def test_a_compressed_reply(cluster: Cluster, nursery: trio.Nursery, autojump_clock: Any) -> None:
    packed, bits = compress(b"long " * 1000)
    cluster.a.replies[SEND] = answering(cluster, nursery, body=packed, sys_flag=bits)
    async with producing(cluster.network) as producer:
        assert (await producer.request(Message.of(TOPIC, b"ping"))).body == b"long " * 1000


@pytest.mark.parametrize("size", [SMALL_PLAIN // 8, SMALL_PLAIN + 1])
async def test_a_large_reply_is_decompressed_in_a_worker(
    cluster: Cluster, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    threads = []

    def noted(*arguments: Any, **options: Any) -> bytes:
        plain = decompress(*arguments, **options)
        threads.append(threading.get_ident())
        return plain

    monkeypatch.setattr("rmqcli.client.wire.messages.decompress", noted)
    plain = random.Random(1).randbytes(size // 2).hex().encode()
    packed, bits = compress(plain)
    cluster.a.replies[SEND] = answering(cluster, nursery, body=packed, sys_flag=bits)
    async with producing(cluster.network, timeout=PATIENCE, send_timeout=PATIENCE) as producer:
        assert (await producer.request(Message.of(TOPIC, b"ping"), timeout=PATIENCE)).body == plain
    (thread,) = threads
    assert (thread == threading.get_ident()) is (size < SMALL_PLAIN)


async def test_no_reply_comes(cluster: Cluster, autojump_clock: Any) -> None:
    async with producing(cluster.network) as producer:
        started = trio.current_time()
        with pytest.raises(
            ReplyTimeout, match=f"no reply to request .* of topic {TOPIC} within 7 s"
        ) as caught:
            await producer.request(Message.of(TOPIC, b"ping"), timeout=7)
    assert trio.current_time() - started == pytest.approx(7, abs=0.6)
    assert isinstance(caught.value, RequestTimeout)


async def test_a_late_reply_and_an_unreadable_one_are_answered(cluster: Cluster, autojump_clock: Any) -> None:
    answers: list[tuple[int, str | None]] = []
    async with producing(cluster.network) as producer:
        await producer.send(Message.of(TOPIC, b"x"))
        broken = pushed("nobody")
        broken.ext_fields = {"topic": "T"}
        damaged = pushed("nobody", b"no zlib", sys_flag=1)
        for command in (pushed("nobody"), broken, damaged):
            reply = await _reply_to(producer, command)
            answers.append((reply.code, reply.remark))
    assert answers[0] == (0, None)
    assert [code for code, _ in answers] == [0, 1, 1]
    assert "unknown err when receiveReplyMsg" in (answers[1][1] or "")


class OneFrame:
    """Stands for a connection on which one frame is sent."""

    address = A

    def __init__(self) -> None:
        self.frame = b""
        self.came = trio.Event()

    def send_frame(self, frame: bytes) -> None:
        self.frame = frame
        self.came.set()


async def _reply_to(producer: Any, command: RemotingCommand) -> RemotingCommand:
    await trio.lowlevel.checkpoint()
    link = OneFrame()
    reply = producer.instance.requests.process(link, command)
    if reply is None:
        await link.came.wait()
        reply = decode_frame(link.frame[4:])
    assert isinstance(reply, RemotingCommand)
    return reply


async def test_a_refused_request_raises_at_once(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = refuse(13, "too large")
    async with producing(cluster.network) as producer:
        with pytest.raises(BrokerRefused, match="too large"):
            await producer.request(Message.of(TOPIC, b"ping"))


async def test_a_new_connection_is_introduced_again(
    cluster: Cluster, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    cluster.a.replies[SEND] = answering(cluster, nursery)
    async with producing(cluster.network) as producer:
        await producer.request(Message.of(TOPIC, b"ping"))
        beats = cluster.a.count(RequestCode.HEART_BEAT)
        await producer.request(Message.of(TOPIC, b"ping"))
        assert cluster.a.count(RequestCode.HEART_BEAT) == beats
        await cluster.a.drop()
        await trio.testing.wait_all_tasks_blocked()
        await producer.request(Message.of(TOPIC, b"ping"))
        assert cluster.a.count(RequestCode.HEART_BEAT) == beats + 1
    assert cluster.network.servers[A].opened == 2


def request_message(**properties: str) -> MessageExt:
    return decode_record(make_record(topic=TOPIC.encode(), properties=encode_properties(properties)))


REQUEST = {"CLUSTER": "C", "CORRELATION_ID": "c1", "REPLY_TO_CLIENT": "me@1", "TTL": "3000"}


async def test_a_reply_goes_the_reply_way(cluster: Cluster, autojump_clock: Any) -> None:
    code = RequestCode.SEND_REPLY_MESSAGE_V2
    cluster.a.replies[code] = sent
    async with producing(cluster.network) as producer:
        await producer.reply(request_message(**REQUEST), "pong", properties={"own": "1"})
    (command,) = [c for c in cluster.a.asked if c.code == code]
    fields = from_ext(SendMessageRequestHeaderV2, command.ext_fields)
    named = properties_of(command)
    assert (fields.topic, command.body) == (REPLY_TOPIC, b"pong")
    assert named | {"UNIQ_KEY": ""} == {
        "CORRELATION_ID": "c1",
        "REPLY_TO_CLIENT": "me@1",
        "TTL": "3000",
        "MSG_TYPE": "reply",
        "own": "1",
        "UNIQ_KEY": "",
    }


async def test_the_requesting_client_has_disconnected(cluster: Cluster, autojump_clock: Any) -> None:
    remark = "push reply message fail, channel of <me@1> not found."
    cluster.a.replies[RequestCode.SEND_REPLY_MESSAGE_V2] = refuse(1, remark)
    async with producing(cluster.network) as producer:
        assert await producer.reply(request_message(**REQUEST), b"pong") is None
        cluster.a.replies[RequestCode.SEND_REPLY_MESSAGE_V2] = refuse(1, "the store is shutting down")
        with pytest.raises(BrokerRefused, match="shutting down"):
            await producer.reply(request_message(**REQUEST), b"pong")


@pytest.mark.parametrize(
    ("missing", "reason"),
    [("CLUSTER", r"property\[CLUSTER\] is null"), ("REPLY_TO_CLIENT", "is not a request")],
)
def test_a_message_that_is_not_a_request_has_no_reply(missing: str, reason: str) -> None:
    properties = {name: value for name, value in REQUEST.items() if name != missing}
    with pytest.raises(InvalidRequest, match=reason):
        create_reply_message(request_message(**properties), b"")


def recorded(code: int) -> list[RemotingCommand]:
    """Requests of this code between Java's client and broker."""
    wire = load_wire("json")
    rows = [row for row in wire.index if row["code"] == code and row["type"] == "request"]
    return [decode_frame(wire.data[row["offset"] + 4 : row["offset"] + row["length"]]) for row in rows]


async def test_replies_that_javas_broker_pushed(
    cluster: Cluster, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    frames = recorded(PUSH)
    assert frames
    async with producing(cluster.network) as producer:
        for command in frames:
            named = decode_properties((command.ext_fields or {})["properties"])
            monkeypatch.setattr(request_reply, "uuid4", lambda named=named: named["CORRELATION_ID"])

            def store(request: RemotingCommand, command: RemotingCommand = command) -> RemotingCommand:
                nursery.start_soon(cluster.a.push, command)
                return sent(request)

            cluster.a.replies[SEND] = store
            reply = await producer.request(Message.of(TOPIC, b"ping"))
            await trio.testing.wait_all_tasks_blocked()
            answer = cluster.a.asked[-1]
            assert (answer.opaque, answer.code, answer.remark) == (command.opaque, 0, None)
            assert answer.is_response
            assert reply.body == bytes(command.body)
            assert reply.properties.items() >= named.items()
            assert reply.topic == "DefaultCluster_REPLY_TOPIC"


async def test_a_reply_has_the_fields_of_javas_reply(cluster: Cluster, autojump_clock: Any) -> None:
    code = RequestCode.SEND_REPLY_MESSAGE_V2
    cluster.a.replies[code] = sent
    async with producing(cluster.network) as producer:
        await producer.reply(request_message(**REQUEST), b"pong")
    (ours,) = [c for c in cluster.a.asked if c.code == code]
    for theirs in recorded(code):
        assert (ours.ext_fields or {}).keys() == (theirs.ext_fields or {}).keys()
        assert properties_of(ours).keys() == properties_of(theirs).keys()
