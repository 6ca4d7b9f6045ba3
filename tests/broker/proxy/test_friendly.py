"""What breaks an official client of RocketMQ 5, as observed in the Python client 5.1.2 and the Node client 1.0.8: no
reply of this service does it.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.broker.errors import Refusal
from rmqcli.broker.proxy.answers import of_refusal
from rmqcli.client import Message, Producer
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import ClientType, Code, DigestType, Encoding, MessageType
from tests.broker.proxy.calls import (
    Stub,
    cluster_with_grpc,
    connected,
    message,
    of_consumer,
    of_producer,
    topic,
)

KINDS = (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER)
LONG = b"long " * 2000
"""Long enough for a producer of remoting to compress it."""


@dataclass
class Seen:
    """What clients were told."""

    received: list[list[Any]] = field(default_factory=list)
    """The replies to each receive or pull that had messages."""
    recovered: Any = None
    """The message of a command to recover a transaction."""
    settings: dict[tuple[str, ClientType], Any] = field(default_factory=dict)
    """Language and type of a client → the command that answered its settings."""
    calls: list[str] = field(default_factory=list)
    """What a Node client with three topics got, in order."""
    queues: list[Any] = field(default_factory=list)
    """All queues of the routes."""
    changed: Any = None
    """The reply to a change of the invisible time to 0 s."""
    came_again: bool = False

    @property
    def messages(self) -> list[Any]:
        got = [one.message for replies in self.received for one in replies if one.HasField("message")]
        return [*got, self.recovered]

    def backoff(self, language: str) -> str:
        command = self.settings[language, ClientType.PUSH_CONSUMER]
        return str(command.settings.backoff_policy.WhichOneof("strategy"))


async def _gather() -> Seen:
    seen = Seen()
    async with cluster_with_grpc() as cluster, trio.open_nursery() as nursery:
        for language in ("PYTHON", "JAVA", "HTTP"):
            stub = await connected(nursery, cluster, client_id=language, language=language)
            for kind in (*KINDS, ClientType.PRODUCER):
                is_producer = kind is ClientType.PRODUCER
                given = of_producer("orders") if is_producer else of_consumer("g", "orders", kind=kind)
                seen.settings[language, kind] = await (await stub.telemetry(given)).next()
        await _start_node(await connected(nursery, cluster, client_id="node", language="HTTP"), seen)
        stub = await connected(nursery, cluster)
        for name in ("orders", "new"):
            seen.queues += (await stub("QueryRoute", topic=topic(name))).message_queues
        await _consume(stub, cluster, seen)
        await _recover(stub, seen)
        nursery.cancel_scope.cancel()
    return seen


async def _start_node(stub: Stub, seen: Seen) -> None:
    """A client that asks for the routes of three topics, of which the last is late."""
    told = await stub.telemetry(of_producer("a", "b", "c"))

    async def ask() -> None:
        for name in "abc":
            await trio.sleep(0.5)
            await stub("QueryRoute", topic=topic(name))
            seen.calls.append("route")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await told.next()
        seen.calls.append("settings")


async def _consume(stub: Stub, cluster: Any, seen: Seen) -> None:
    sent = [
        message("orders", b"plain", tag="t"),
        message("orders", gzip.compress(LONG), body_encoding=Encoding.GZIP),
    ]
    for one in sent:
        await stub("SendMessage", messages=[one])
    async with Producer("p", **cluster.client()) as producer:
        await producer.send(Message.of("orders", LONG + b"2"))
    queue = messages.MessageQueue(topic=topic("orders"), id=-1)
    wanted = {"group": topic("g"), "message_queue": queue, "batch_size": 32}
    wanted["invisible_duration"] = messages.Duration(seconds=30)
    first = await stub.stream("ReceiveMessage", **wanted)
    seen.received.append(first)
    lent = next(one.message for one in first if one.HasField("message"))
    seen.changed = await stub(
        "ChangeInvisibleDuration",
        group=topic("g"),
        topic=topic("orders"),
        receipt_handle=lent.system_properties.receipt_handle,
        invisible_duration=messages.Duration(),
    )
    again = await stub.stream("ReceiveMessage", **wanted)
    seen.received.append(again)
    seen.came_again = [one.message.body for one in again if one.HasField("message")] == [lent.body]
    for number in range(8):
        queue = messages.MessageQueue(topic=topic("orders"), id=number, broker=seen.queues[0].broker)
        pulled = await stub.stream("PullMessage", group=topic("g"), message_queue=queue, batch_size=32)
        seen.received.append([one for one in pulled if one.HasField("message")])


async def _recover(stub: Stub, seen: Seen) -> None:
    told = await stub.telemetry(of_producer("orders"))
    await told.next()
    await stub("SendMessage", messages=[message("orders", b"half", MessageType.TRANSACTION)])
    async with trio.open_nursery() as nursery:

        async def beat() -> None:
            while True:
                await trio.sleep(10)
                await stub("Heartbeat", client_type=ClientType.PRODUCER)

        nursery.start_soon(beat)
        seen.recovered = (await told.next()).recover_orphaned_transaction_command.message
        nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def seen() -> Seen:
    result: Seen = trio.run(_gather, clock=trio.testing.MockClock(autojump_threshold=0))
    return result


def digests(seen: Seen) -> list[Any]:
    return [one.system_properties.body_digest for one in seen.messages]


def order_of(replies: list[Any]) -> list[str]:
    return [one.WhichOneof("content") for one in replies]


def refused(code: ResponseCode) -> Code:
    return of_refusal(Refusal(code, "")).code


ROWS: Mapping[str, Callable[[Seen], bool]] = MappingProxyType(
    {
        "a message without digest": lambda seen: all(one.checksum for one in digests(seen)),
        "a recovery without digest": lambda seen: bool(seen.recovered.system_properties.body_digest.checksum),
        "a digest by CRC32": lambda seen: {one.type for one in digests(seen)} == {DigestType.MD5},
        "a wrong digest": lambda seen: all(
            one.system_properties.body_digest.checksum == hashlib.md5(one.body).hexdigest().upper()
            for one in seen.messages
        ),
        "a compressed body that is called plain": lambda seen: (
            {one.body for one in seen.messages} == {b"plain", b"half", LONG, LONG + b"2"}
        ),
        "body encoding 0": lambda seen: (
            {one.system_properties.body_encoding for one in seen.messages} == {Encoding.IDENTITY}
        ),
        "customized backoff for Node": lambda seen: seen.backoff("HTTP") == "exponential_backoff",
        "exponential backoff for Python": lambda seen: (
            {seen.backoff("PYTHON"), seen.backoff("JAVA")} == {"customized_backoff"}
        ),
        "0 s that are refused": lambda seen: seen.changed.status.code == Code.OK and seen.came_again,
        "no settings": lambda seen: all(
            one.HasField("settings") and one.status.code == Code.OK for one in seen.settings.values()
        ),
        "settings before a route": lambda seen: seen.calls == ["route"] * 3 + ["settings"],
        "queues from 1": lambda seen: [one.id for one in seen.queues] == [*range(8), *range(8)],
        "a broker that is no master": lambda seen: {one.broker.id for one in seen.queues} == {0},
        "a status that comes last": lambda seen: all(
            order_of(replies)[0] == "status" and order_of(replies)[-1] == "delivery_timestamp"
            for replies in seen.received[:2]
        ),
        "a send that is not tried again": lambda _: (
            refused(ResponseCode.SERVICE_NOT_AVAILABLE) == Code.INTERNAL_SERVER_ERROR
            and refused(ResponseCode.SYSTEM_BUSY) == Code.TOO_MANY_REQUESTS
        ),
        "a queue that refuses a type": lambda seen: all(
            {*one.accept_message_types} >= {*MessageType} - {MessageType.MESSAGE_TYPE_UNSPECIFIED, 5, 6}
            for one in seen.queues
        ),
    }
)


@pytest.mark.parametrize("row", ROWS)
def test_no_reply_breaks_a_client(seen: Seen, row: str) -> None:
    assert len(seen.messages) == 8
    assert ROWS[row](seen)
