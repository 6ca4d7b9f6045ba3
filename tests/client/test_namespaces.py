"""Short and long names: the table of Java's `NamespaceUtil`, and every kind of client in a namespace against
a broker of this project, where an administrator sees the long names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.client import (
    Admin,
    ClientInstance,
    ConsumeResult,
    InvalidRequest,
    LitePullConsumer,
    LiteSettings,
    OrderlyResult,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
    ScheduledPull,
    TransactionProducer,
    TransactionState,
    split_batch,
)
from rmqcli.client.identity import Namespace, without_namespace
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.ids import split_address
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from tests.support import PATIENCE

NS = "MQ_INST_1"
PATIENT: Any = {"timeout": PATIENCE, "send_timeout": PATIENCE}
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("Topic", f"{NS}%Topic"),
        ("%RETRY%GID", f"%RETRY%{NS}%GID"),
        ("%DLQ%GID", f"%DLQ%{NS}%GID"),
        ("Other%Topic", f"{NS}%Other%Topic"),
    ],
)
def test_names_are_wrapped_once_and_unwrapped(short: str, long: str) -> None:
    namespace = Namespace(NS)
    assert (namespace.wrap(short), namespace.wrap(long), namespace.unwrap(long)) == (long, long, short)
    assert without_namespace(long) == short
    assert (Namespace().wrap(short), Namespace().unwrap(long)) == (short, long)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRACE_TOPIC",
        "rmq_sys_x",
        "CID_RMQ_SYS_TRANS",
        "OFFSET_MOVED_EVENT",
    ],
)
def test_system_names_have_no_long_form(name: str) -> None:
    assert Namespace(NS).wrap(name) == name
    assert without_namespace(name) == name


@pytest.mark.parametrize(
    ("name", "mine", "anybodys"),
    [
        ("Topic", "Topic", "Topic"),
        ("MQ_INST_2%Topic", "MQ_INST_2%Topic", "Topic"),
        ("MQ_INST_12%Topic", "MQ_INST_12%Topic", "Topic"),
        ("%RETRY%MQ_INST_2%GID", "%RETRY%MQ_INST_2%GID", "%RETRY%GID"),
        ("%RETRY%GID", "%RETRY%GID", "%RETRY%GID"),
        ("%Topic", "%Topic", "%Topic"),
        (f"{NS}%", "", ""),
    ],
)
def test_names_of_others(name: str, mine: str, anybodys: str) -> None:
    assert (Namespace(NS).unwrap(name), without_namespace(name)) == (mine, anybodys)


@pytest.fixture
async def cluster() -> AsyncIterator[Any]:
    levels = " ".join(["1s"] * 18)
    async with broker.embedded(
        message_delay_level=levels,
        transaction_check_interval=100,
        transaction_time_out=100,
        transaction_check_max=1_000_000,
    ) as running:
        yield running


def inside(cluster: Any) -> dict[str, Any]:
    return {"namesrv": cluster.namesrv, "namespace": NS, "timeout": PATIENCE}


async def names(cluster: Any) -> set[str]:
    """Topics and groups by their long names."""
    async with Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin:
        return {*await admin.topics.names(), *await admin.groups.names()}


async def test_sends_and_pulls(cluster: Any) -> None:
    async with Producer("P", **inside(cluster), send_timeout=PATIENCE) as producer:
        assert (await producer.send(Message.of("T", b"1"))).message_queue.topic == "T"
        queues = await producer.message_queues("T")
        assert {queue.topic for queue in queues} == {"T"}
        seen: list[tuple[set[str], str]] = []

        def select(choices: Any, message: Message) -> MessageQueue:
            seen.append(({queue.topic for queue in choices}, message.topic))
            return queues[1]

        assert (await producer.send(Message.of("T", b"2"), selector=select)).message_queue == queues[1]
        assert seen == [({"T"}, "T")]
        assert (await producer.send(Message.of("T", b"3"), queue=queues[2])).message_queue == queues[2]
        await producer.send_oneway(Message.of("T", b"4"), queue=queues[2])
        with trio.fail_after(PATIENCE):
            async with PullConsumer("G", **inside(cluster)) as consumer:
                # A broker may handle the batch before it has stored the message without a reply
                while await consumer.max_offset(queues[2]) < 2:
                    await trio.lowlevel.checkpoint()
        batch = [Message.of("T", b"5"), Message.of("T", b"6")]
        assert (await producer.send_batch(batch, queue=queues[3])).message_queue == queues[3]
    async with PullConsumer("G", **inside(cluster)) as consumer:
        assert await consumer.message_queues("T") == queues
        found: list[MessageExt] = []
        for queue in queues:
            offset = await consumer.max_offset(queue)
            if offset:
                found += (await consumer.pull(queue, 0)).messages
                await consumer.commit(queue, offset)
                assert await consumer.committed(queue) == offset
    assert sorted(message.body for message in found) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert {(m.topic, m.properties["INSTANCE_ID"]) for m in found} == {("T", NS)}
    assert {f"{NS}%T", f"{NS}%G"} <= await names(cluster)
    assert "T" not in await names(cluster)


async def test_split_batches_fit_with_any_namespace(cluster: Any) -> None:
    messages = [Message.of("T", b"x") for _ in range(200)]
    options = inside(cluster) | {"namespace": "n" * 100, "send_timeout": PATIENCE, "max_message_size": 8192}
    async with Producer("P", **options) as producer:
        parts = list(split_batch(messages, 8192))
        results = [await producer.send_batch(part) for part in parts]
    assert len(parts) == 3
    async with PullConsumer("G", namesrv=cluster.namesrv, timeout=PATIENCE) as reader:
        queue = Namespace("n" * 100).wrap_queue(results[0].message_queue)
        found = (await reader.pull(queue, results[0].queue_offset, 1)).messages
    assert {message.properties["INSTANCE_ID"] for message in found} == {"n" * 100}


@pytest.mark.parametrize("orderly", [False, True])
async def test_push_consumption_with_retries(cluster: Any, orderly: bool) -> None:
    times: list[int] = []
    topics: set[str] = set()
    done = trio.Event()

    async def listen(messages: list[MessageExt], context: Any) -> Any:
        topics.update({messages[0].topic, context.queue.topic})
        times.append(messages[0].reconsume_times)
        if times != [0, 1]:
            return OrderlyResult.SUSPEND if orderly else ConsumeResult.RECONSUME_LATER
        done.set()
        return OrderlyResult.SUCCESS if orderly else ConsumeResult.SUCCESS

    async with Producer("P", **inside(cluster), send_timeout=PATIENCE) as producer:
        await producer.send(Message.of("T", b"again"))
    settings = PushSettings(consume_from=FIRST)
    consumer: Any = PushConsumer
    async with consumer(
        "G", {"T": "*"}, listen, orderly=orderly, settings=settings, **inside(cluster)
    ) as member:
        with trio.fail_after(PATIENCE):
            await done.wait()
        assert {queue.topic for queue in member.queues} == {"T", "%RETRY%G"}
    assert topics - {"%RETRY%G"} == {"T"}
    assert f"%RETRY%{NS}%G" in await names(cluster)


async def test_dead_letters_are_those_of_the_long_name(cluster: Any) -> None:
    failed = trio.Event()

    async def listen(messages: list[MessageExt], context: Any) -> ConsumeResult:
        failed.set()
        return ConsumeResult.RECONSUME_LATER

    async with Producer("P", **inside(cluster), send_timeout=PATIENCE) as producer:
        await producer.send(Message.of("T", b"bad"))
    settings = PushSettings(consume_from=FIRST, max_reconsume_times=0)
    async with PushConsumer("G", {"T": "*"}, listen, settings=settings, **inside(cluster)):
        with trio.fail_after(PATIENCE):
            await failed.wait()
            while f"%DLQ%{NS}%G" not in await names(cluster):
                await trio.lowlevel.checkpoint()
    async with PullConsumer("G", **inside(cluster)) as consumer:
        (queue,) = await consumer.message_queues("%DLQ%G")
        (dead,) = (await consumer.pull(queue, 0)).messages
    assert (dead.topic, dead.body) == ("%DLQ%G", b"bad")
    assert dead.properties["RETRY_TOPIC"] == f"{NS}%T"


async def test_polling(cluster: Any) -> None:
    changes: list[tuple[str, set[str]]] = []
    async with Producer("P", **inside(cluster), send_timeout=PATIENCE) as producer:
        await producer.send(Message.of("T", b"1"))
    settings = LiteSettings(consume_from=FIRST)
    async with LitePullConsumer("G", settings=settings, **inside(cluster)) as consumer:
        await consumer.subscribe(
            "T", on_change=lambda topic, queues, mine: changes.append((topic, {q.topic for q in mine}))
        )
        (message,) = await consumer.poll(PATIENCE)
        assert message.topic == "T"
        queue = MessageQueue("T", message.broker_name, message.queue_id)
        assert queue in consumer.assignment
        await consumer.commit()
        assert await consumer.committed(queue) == 1
        consumer.pause([queue])
        consumer.resume([queue])
        await consumer.seek_to_begin(queue)
        assert [again.body for again in await consumer.poll(PATIENCE)] == [b"1"]
        await consumer.unsubscribe("T")
        assert consumer.assignment == []
    assert changes == [("T", {"T"})]


async def test_scheduled_pulls(cluster: Any) -> None:
    async with Producer("P", **inside(cluster), send_timeout=PATIENCE) as producer:
        sent = await producer.send(Message.of("T", b"1"))
    seen: list[MessageQueue] = []

    async def task(consumer: PullConsumer, queue: MessageQueue) -> float:
        seen.append(queue)
        if len(seen) == 4:
            nursery.cancel_scope.cancel()
        return PATIENCE

    async with PullConsumer("G", **inside(cluster)) as consumer:
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ScheduledPull(consumer, {"T": task}).run)
        assert sent.message_queue in seen
        assert sorted(await consumer.queues_in_balance("T")) == sorted(seen)


async def test_transactions_are_checked_with_short_names(cluster: Any) -> None:
    asked: list[str] = []
    answered = trio.Event()

    async def check(message: MessageExt) -> TransactionState:
        asked.append(message.topic)
        answered.set()
        return TransactionState.COMMIT_MESSAGE

    async def local(message: Message) -> TransactionState:
        return TransactionState.UNKNOW

    async with TransactionProducer("P", check, **inside(cluster), send_timeout=PATIENCE) as producer:
        await producer.send_in_transaction(Message.of("T", b"1"), local)
        with trio.fail_after(PATIENCE):
            await answered.wait()
    assert asked == ["T"]


async def test_requests_and_replies() -> None:
    """Brokers create no topics: the request uses the route of its long name, the reply topic has no
    namespace.
    """
    async with (
        broker.embedded(auto_create_topic_enable=False) as cluster,
        Producer("Answering", **inside(cluster), send_timeout=PATIENCE) as answering,
    ):

        async def listen(messages: list[MessageExt], context: Any) -> ConsumeResult:
            await answering.reply(messages[0], b"yes")
            return ConsumeResult.SUCCESS

        settings = PushSettings(consume_from=FIRST)
        async with Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin:
            await admin.topics.create(f"{NS}%Q")
        async with (
            PushConsumer("G", {"Q": "*"}, listen, settings=settings, **inside(cluster)),
            Producer("Asking", **inside(cluster), send_timeout=PATIENCE) as asking,
        ):
            assert (await asking.request(Message.of("Q", b"?"), timeout=PATIENCE)).body == b"yes"


async def test_traces_have_short_names_and_topics_come_and_go_by_them(cluster: Any) -> None:
    seen = trio.Event()

    async def listen(messages: list[MessageExt], context: Any) -> ConsumeResult:
        seen.set()
        return ConsumeResult.SUCCESS

    async with Producer("P", **inside(cluster), send_timeout=PATIENCE, trace=True) as producer:
        await producer.send(Message.of("T", b"1"))
        await producer.send(Message.of("U", b"2"))
    settings = PushSettings(consume_from=FIRST, trace=True)
    async with PushConsumer("G", {"T": "*"}, listen, settings=settings, **inside(cluster)) as member:
        with trio.fail_after(PATIENCE):
            await seen.wait()
        await member.subscribe("U")
        await member.unsubscribe("T")
        async with Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin:
            wanted = (await admin.clients.consumers(f"{NS}%G")).subscription_table
        assert wanted.keys() == {f"{NS}%U", f"%RETRY%{NS}%G"}
    async with PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as reader:
        texts = []
        for queue in await reader.message_queues("RMQ_SYS_TRACE_TOPIC"):
            texts += [message.body.decode() for message in (await reader.pull(queue, 0)).messages]
    traces = "".join(texts)
    assert "Pub" in traces and "SubAfter" in traces
    assert NS not in traces


async def trace_topics(options: dict[str, Any], cluster: Any) -> tuple[set[str], set[str]]:
    """The topics that a traced send to T creates, and the namespaces of its traces."""
    async with Producer("P", **options, send_timeout=PATIENCE, trace="Traces") as producer:
        await producer.send(Message.of("T", b"1"))
    topics = {name for name in await names(cluster) if name.rpartition("%")[2] in ("T", "Traces")}
    groups: set[str] = set()
    async with PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as reader:
        for queue in await reader.message_queues(next(name for name in topics if name.endswith("Traces"))):
            for message in (await reader.pull(queue, 0)).messages:
                groups.add(message.properties.get("INSTANCE_ID", ""))
    return topics, groups


async def test_a_custom_trace_topic_has_its_whole_name(cluster: Any) -> None:
    """The producer of traces has no namespace (Java `AsyncTraceDispatcher`)."""
    assert await trace_topics(inside(cluster), cluster) == ({f"{NS}%T", "Traces"}, {""})


@pytest.mark.parametrize(
    ("address", "namespace", "server"),
    [
        ("http://MQ_INST_1_ab.host:80", "MQ_INST_1_ab", "MQ_INST_1_ab.host:80"),
        ("MQ_INST_1_ab.host", "MQ_INST_1_ab", "MQ_INST_1_ab.host:9876"),
        ("http://mq.MQ_INST_1_ab.host:80", "", "mq.MQ_INST_1_ab.host:80"),
        ("http://MQ_INST_1.host:80", "", "MQ_INST_1.host:80"),
        ("http://host:80", "", "host:80"),
    ],
)
def test_an_address_that_names_the_instance(address: str, namespace: str, server: str) -> None:
    """Java `NameServerAddressUtils.INST_ENDPOINT_PATTERN`.

    An explicit namespace, even none, takes precedence.
    """
    assert ClientInstance(address).namespace.name == namespace
    assert ClientInstance(address).name_servers.addresses == (server,)
    assert ClientInstance(address, namespace="other").namespace.name == "other"
    assert not ClientInstance(address, namespace="").namespace
    Admin(namesrv=address)


async def test_the_namespace_of_an_address_is_that_of_its_traces_too(cluster: Any) -> None:
    endpoint = f"http://{NS}_x.localhost:80"
    namesrv, namesrv_port = split_address(cluster.namesrv)

    async def open_stream(host: str, port: int) -> trio.SocketStream:
        """The name server is behind its public address."""
        return await trio.open_tcp_stream(*((namesrv, namesrv_port) if port == 80 else (host, port)))

    wanted = {f"{NS}_x%T", f"{NS}_x%Traces"}
    assert await trace_topics(
        {"namesrv": endpoint, "timeout": PATIENCE, "open_stream": open_stream}, cluster
    ) == (wanted, {f"{NS}_x"})


def test_an_administrator_has_no_namespace() -> None:
    with pytest.raises(InvalidRequest, match="whole names"):
        Admin(namespace=NS)
