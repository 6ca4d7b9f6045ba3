"""Calls of a gRPC client to a cluster in memory."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from rmqcli.broker.testing.in_memory import MemoryCluster, embedded_in_memory
from rmqcli.client import PullConsumer
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import ClientType, Encoding, MessageType
from tests.broker.proxy.grpc_client import GrpcClient

GRPC_PORT = 8081
_METHODS = {method.name: method for method in messages.METHODS}
_numbers = itertools.count(1)


class Stub:
    """A client of the service."""

    def __init__(self, client: GrpcClient) -> None:
        self.client = client

    async def __call__(self, name: str, **fields: Any) -> Any:
        """The reply to a unary call."""
        method = _METHODS[name]
        answer = await self.client.ask(method.path, method.request(**fields).SerializeToString())
        assert answer.status == 0, answer.trailers or answer.headers
        data = answer.next()
        assert data is not None
        return method.reply.FromString(data)

    async def stream(self, name: str, **fields: Any) -> list[Any]:
        """The replies to a call with a stream of them."""
        method = _METHODS[name]
        number = self.client.open(method.path)
        await self.client.send(number, method.request(**fields).SerializeToString(), end=True)
        replies = []
        while (data := await self.client.message(number)) is not None:
            replies.append(method.reply.FromString(data))
        assert self.client.answers[number].status == 0
        return replies

    async def telemetry(self, settings: Any) -> Telemetry:
        """A stream of telemetry that began with these settings, and was answered."""
        stream = self.client.open(_METHODS["Telemetry"].path)
        told = Telemetry(self.client, stream)
        await told.send(settings=settings)
        return told


class Telemetry:
    """A stream of telemetry commands."""

    def __init__(self, client: GrpcClient, stream: int) -> None:
        self.client = client
        self.number = stream

    async def send(self, **command: Any) -> None:
        await self.client.send(self.number, messages.TelemetryCommand(**command).SerializeToString())

    async def next(self) -> Any:
        with trio.fail_after(600):
            data = await self.client.message(self.number)
        return None if data is None else messages.TelemetryCommand.FromString(data)


@asynccontextmanager
async def cluster_with_grpc(**settings: Any) -> AsyncIterator[MemoryCluster]:
    async with embedded_in_memory(**{"grpc_port": GRPC_PORT, **settings}) as cluster:
        yield cluster


async def connected(nursery: trio.Nursery, cluster: MemoryCluster, **headers: str) -> Stub:
    """A stub whose calls have these headers; `client_id` stands for x-mq-client-id."""
    names = {f"x-mq-{name.replace('_', '-')}": value for name, value in headers.items()}
    stream = await cluster.surroundings.network.open_stream("127.0.0.1", GRPC_PORT)
    client: GrpcClient = await nursery.start(GrpcClient(stream, headers=names).run)
    return Stub(client)


def topic(name: str) -> Any:
    return messages.Resource(name=name)


def message(name: str, body: bytes = b"hello", kind: MessageType = MessageType.NORMAL, **system: Any) -> Any:
    """A message as the official clients send it."""
    given = {
        "message_id": f"01{next(_numbers):032X}",
        "body_encoding": Encoding.IDENTITY,
        "message_type": kind,
    }
    properties = system.pop("user_properties", {})
    return messages.Message(
        topic=topic(name),
        body=body,
        user_properties=properties,
        system_properties=messages.SystemProperties(**given | system),
    )


def of_producer(*topics: str) -> Any:
    publishing = messages.Publishing(topics=[topic(name) for name in topics], max_body_size=134_217_728)
    return messages.Settings(client_type=ClientType.PRODUCER, publishing=publishing)


def of_consumer(
    group: str, *topics: str, kind: ClientType = ClientType.PUSH_CONSUMER, expression: str = "*"
) -> Any:
    entries = [
        messages.SubscriptionEntry(
            topic=topic(name), expression=messages.FilterExpression(type=1, expression=expression)
        )
        for name in topics
    ]
    subscription = messages.Subscription(group=topic(group), subscriptions=entries)
    return messages.Settings(client_type=kind, subscription=subscription)


async def pulled(cluster: Any, name: str) -> list[Any]:
    """All messages of a topic, as a client of remoting sees them."""
    async with PullConsumer(**cluster.client()) as consumer:
        found = []
        for queue in await consumer.message_queues(name):
            offset = await consumer.min_offset(queue)
            while (result := await consumer.pull(queue, offset)).messages:
                found += result.messages
                offset = result.next_begin_offset
        return found
