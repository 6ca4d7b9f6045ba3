"""The client against a broker of this project, over real sockets."""

from __future__ import annotations

import random
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trustme

from rmqcli import broker
from rmqcli.client import (
    Admin,
    ConnectionFailed,
    GroupNotFound,
    NoNameServer,
    NoRoute,
    OnlineResetUnsupported,
    Producer,
    PullConsumer,
    PullStatus,
    ResetTarget,
    SendResult,
    SendStatus,
    split_batch,
)
from rmqcli.client.instance import ClientInstance
from rmqcli.client.processor import BrokerRequest
from rmqcli.client.wire.streams import TcpStream, open_tcp
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import ConsumerData, ConsumeType, MessageModel, SubscriptionData
from rmqcli.codec.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.offsets import GetConsumerStatusRequestHeader, ResetOffsetRequestHeader
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.offsets import GET_CONSUMER_STATUS_FROM_CLIENT, RESET_CONSUMER_CLIENT_OFFSET
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import Server, ok
from tests.support import PATIENCE

TOPIC, GROUP = "TopicTest", "GroupTest"
PATIENT: Any = {"timeout": PATIENCE, "send_timeout": PATIENCE}


@pytest.fixture
async def cluster() -> AsyncIterator[Any]:
    async with broker.embedded() as running:
        yield running


async def read_all(consumer: PullConsumer, topic: str) -> list[Any]:
    found = []
    for queue in await consumer.message_queues(topic):
        offset = await consumer.min_offset(queue)
        while (result := await consumer.pull(queue, offset)).status is PullStatus.FOUND:
            found += result.messages
            offset = result.next_begin_offset
    return found


async def test_sends_in_the_background(cluster: Any) -> None:
    outcomes: list[Any] = []
    async with (
        Producer(namesrv=cluster.namesrv, **PATIENT, in_flight=16) as producer,
        PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        async with Producer(instance=producer.instance, **PATIENT, in_flight=16) as leaving:
            for number in range(200):
                await leaving.send_soon(Message.of(TOPIC, str(number)), outcomes.append)
        assert Counter(type(outcome) for outcome in outcomes) == {SendResult: 200}
        stored = await read_all(consumer, TOPIC)
    assert sorted(m.msg_id for m in stored) == sorted(outcome.msg_id for outcome in outcomes)
    assert {m.body for m in stored} == {str(number).encode() for number in range(200)}


async def test_messages_come_back_as_they_were_sent(cluster: Any) -> None:
    large = bytes(range(256)) * 100
    messages = [
        Message.of(TOPIC, "héllo", tags="A", keys=["k1", "k2"], properties={"own": "wert"}, flag=7),
        Message.of(TOPIC, large, tags="B"),
    ]
    async with (
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
        PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        results = [await producer.send(message) for message in messages]
        stored = {m.msg_id: m for m in await read_all(consumer, TOPIC)}
    assert all(result.status is SendStatus.SEND_OK for result in results)
    for message, result in zip(messages, results, strict=True):
        found = stored[result.msg_id]
        assert (found.body, found.flag, found.tags, found.keys) == (
            message.body,
            message.flag,
            message.tags,
            message.keys,
        )
        assert message.properties.items() <= found.properties.items()
        assert found.queue == result.message_queue
        assert (found.queue_offset, found.offset_msg_id) == (result.queue_offset, result.offset_msg_id)


async def test_body_larger_than_the_buffers_of_a_socket(cluster: Any) -> None:
    body = random.Random(5).randbytes(4 << 20)
    async with Producer(namesrv=cluster.namesrv, compression=None, **PATIENT) as producer:
        results = [await producer.send(Message.of(TOPIC, body)) for _ in range(3)]
        async with PullConsumer(instance=producer.instance) as consumer:
            pulled = [
                await consumer.pull(r.message_queue, r.queue_offset, 1, timeout=PATIENCE) for r in results
            ]
    assert [result.messages[0].body == body for result in pulled] == [True] * 3


async def test_many_in_flight_are_all_stored_once(cluster: Any) -> None:
    async with (
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
        PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        acknowledged: list[str] = []

        async def send(first: int) -> None:
            for number in range(first, first + 20):
                result = await producer.send(Message.of(TOPIC, str(number)))
                acknowledged.append(result.msg_id)

        async with trio.open_nursery() as senders:
            for task in range(50):
                senders.start_soon(send, task * 20)
        stored = await read_all(consumer, TOPIC)
    assert Counter(m.msg_id for m in stored) == Counter(acknowledged)
    assert sorted(int(m.body) for m in stored) == list(range(1000))


async def test_batches_and_oneway(cluster: Any) -> None:
    async with (
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
        PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        parts = list(split_batch((Message.of(TOPIC, str(n)) for n in range(100)), max_count=32))
        results = [await producer.send_batch(part) for part in parts]
        single = await producer.send_oneway(Message.of(TOPIC, b"oneway"))
        stored: list[Any] = []
        with trio.fail_after(PATIENCE):
            while len(stored) < 101:
                stored = await read_all(consumer, TOPIC)
    ids = {msg_id for result in results for msg_id in result.msg_id.split(",")}
    assert len(ids) == 100
    assert {m.msg_id for m in stored} == ids | {single}


async def test_long_poll_returns_when_a_message_arrives(cluster: Any) -> None:
    async with (
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
        PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        first = await producer.send(Message.of(TOPIC, b"first"))
        results: list[Any] = []

        async def wait() -> None:
            results.append(await consumer.pull(first.message_queue, first.queue_offset + 1, suspend=15.0))

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                while consumer.instance.pool.in_flight < 1:
                    await trio.lowlevel.checkpoint()
                await producer.send(Message.of(TOPIC, b"second"), queue=first.message_queue)
    assert [m.body for m in results[0].messages] == [b"second"]


async def test_offsets_and_their_corrections(cluster: Any) -> None:
    async with (
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
        PullConsumer(GROUP, namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        sent = await producer.send(Message.of(TOPIC, b"x"))
        queue = sent.message_queue
        beyond = await consumer.pull(queue, 1000)
        assert (beyond.status, beyond.next_begin_offset) == (PullStatus.OFFSET_ILLEGAL, 1)
        assert (await consumer.pull(queue, 1)).status is PullStatus.NO_NEW_MSG
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 1)
        assert await consumer.search_offset(queue, 0) == 0
        await consumer.commit(queue, 1)
        assert await consumer.committed(queue) == 1
        await consumer.commit(queue, 0)
        assert await consumer.committed(queue) == 0


async def test_administration_from_creation_to_deletion(cluster: Any) -> None:
    async with (
        Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin,
        Producer(instance=admin.instance, send_timeout=PATIENCE) as producer,
    ):
        await admin.topics.create("Made", read_queues=2, write_queues=2)
        sent = [await producer.send(Message.of("Made", b"x", keys=f"k{n}")) for n in range(6)]
        assert sum(o.max_offset for o in (await admin.topics.stats("Made")).values()) == 6
        assert [m.msg_id for m in (await admin.messages.query_by_key("Made", "k3")).messages] == [
            sent[3].msg_id
        ]
        for msg_id in (sent[2].msg_id, sent[2].offset_msg_id):
            assert [m.msg_id for m in (await admin.messages.query_by_id("Made", msg_id)).messages] == [
                sent[2].msg_id
            ]
        await admin.topics.update("Made", perm=4)
        assert {config.perm for config in (await admin.topics.settings("Made")).values()} == {4}
        await admin.topics.delete("Made")
        with pytest.raises(NoRoute):
            await admin.topics.route("Made")
        assert [seat.error for seat in await admin.brokers.summaries()] == [None]


async def test_groups(cluster: Any) -> None:
    async with (
        Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin,
        Producer(instance=admin.instance, send_timeout=PATIENCE) as producer,
    ):
        sent = await producer.send(Message.of(TOPIC, b"x"))
        with pytest.raises(GroupNotFound):
            await admin.groups.describe(GROUP)
        await admin.groups.create(SubscriptionGroupConfig(group_name=GROUP))
        assert not (await admin.groups.describe(GROUP)).online
        await admin.offsets.commit(sent.message_queue, 0, GROUP)
        assert GROUP in await admin.groups.names()
        lags = {lag.queue: lag.lag for lag in await admin.offsets.lags(GROUP, TOPIC)}
        assert lags[sent.message_queue] == 1


class RunningConsumer:
    """The part of a push consumer that a reset needs: it is in the group, commits the offsets it receives,
    and reports them.
    """

    def __init__(self, instance: ClientInstance) -> None:
        self.instance = instance
        self.consumer = PullConsumer(GROUP, instance=instance)
        self.held: dict[MessageQueue, int] = {}
        instance.requests.register(RESET_CONSUMER_CLIENT_OFFSET, self.told, GROUP)
        instance.requests.register(GET_CONSUMER_STATUS_FROM_CLIENT, self.asked, GROUP)
        subscription = SubscriptionData(topic=TOPIC, sub_string="*", sub_version=1)
        instance.heartbeats.join_consumer(
            ConsumerData(
                group_name=GROUP,
                consume_type=ConsumeType.CONSUME_PASSIVELY,
                message_model=MessageModel.CLUSTERING,
                subscription_data_set=[subscription],
            )
        )

    def told(self, request: BrokerRequest[ResetOffsetRequestHeader, None, ResetOffsetBody, None]) -> None:
        self.instance.nursery.start_soon(self.move, request.body.offset_table)

    def asked(
        self, request: BrokerRequest[GetConsumerStatusRequestHeader, None, None, GetConsumerStatusBody]
    ) -> RemotingCommand:
        return request.reply(GetConsumerStatusBody(message_queue_table=self.held))

    async def move(self, table: dict[MessageQueue, int]) -> None:
        for queue, offset in table.items():
            await self.consumer.commit(queue, offset)
        self.held |= table


async def test_reset_of_running_consumers(cluster: Any) -> None:
    async with (
        Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin,
        Producer(instance=admin.instance, send_timeout=PATIENCE) as producer,
        ClientInstance(cluster.namesrv, timeout=PATIENCE) as instance,
    ):
        sent = await producer.send(Message.of(TOPIC, b"x"))
        running = RunningConsumer(instance)
        for queue in await running.consumer.message_queues(TOPIC):
            await running.consumer.commit(queue, 0)
        with trio.fail_after(PATIENCE):
            while not (await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("end"))).online:
                await trio.lowlevel.checkpoint()
        plan = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("end"))
        assert plan.clients == (instance.client_id,)
        assert plan.skipped == 1
        result = await admin.offsets.reset(plan)
        assert result.online
        assert result.complete
        assert await admin.offsets.committed(sent.message_queue, GROUP) == 1
        number = sent.message_queue.queue_id
        back = await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("shift", -1), queue_id=number)
        result = await admin.offsets.reset(back)
        assert result.online
        assert result.complete
        assert await admin.offsets.committed(sent.message_queue, GROUP) == 0
        address = (await admin.brokers.masters())["broker-a"]
        for value in (b"false", b"true"):
            switch = b"useServerSideResetOffset=" + value
            await admin.invoke(address, RequestCode.UPDATE_BROKER_CONFIG, body=switch)
            if value == b"false":
                with pytest.raises(OnlineResetUnsupported):
                    await admin.offsets.plan_reset(GROUP, TOPIC, ResetTarget("offset", 0))
    async with Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as later:
        result = await later.offsets.reset(
            await later.offsets.plan_reset(GROUP, TOPIC, ResetTarget("offset", 0))
        )
        assert not result.online
        assert result.complete


async def test_a_name_server_that_is_not_there() -> None:
    """The port is bound, so that nobody else listens on it."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        async with Admin(namesrv=f"127.0.0.1:{port}", timeout=PATIENCE) as admin:
            with pytest.raises(NoNameServer, match=rf"127\.0\.0\.1:{port}: Connection refused$"):
                await admin.topics.names()


async def test_tls(nursery: trio.Nursery) -> None:
    authority = trustme.CA()
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server_side)
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    scripted = Server({RequestCode.GET_BROKER_CONFIG: ok({"version": "1"}, b"k=v")})
    listeners = await nursery.start(trio.serve_ssl_over_tcp, scripted.serve, 0, server_side)
    address = f"127.0.0.1:{listeners[0].transport_listener.socket.getsockname()[1]}"
    async with Admin(namesrv=address, tls=client_side, timeout=PATIENCE) as admin:
        reply = await admin.invoke(address, RequestCode.GET_BROKER_CONFIG)
        assert bytes(reply.body) == b"k=v"
    async with Admin(namesrv=address, tls=ssl.create_default_context(), timeout=PATIENCE) as admin:
        with pytest.raises(ConnectionFailed, match=r"TLS: its certificate is refused: .*issuer"):
            await admin.invoke(address, RequestCode.GET_BROKER_CONFIG)


async def test_host_that_does_not_exist() -> None:
    async with Admin(namesrv="no-such-host.invalid:9876") as admin:
        with pytest.raises(NoNameServer, match=r"no-such-host\.invalid"):
            await admin.topics.names()


async def test_tcp_streams_speak_plain_without_a_context(nursery: trio.Nursery) -> None:
    scripted = Server({RequestCode.GET_BROKER_CONFIG: ok({}, b"plain")})
    listeners = await nursery.start(trio.serve_tcp, scripted.serve, 0)
    stream = await open_tcp("127.0.0.1", listeners[0].socket.getsockname()[1])
    assert isinstance(stream, TcpStream)
    await stream.aclose()
