"""Transactions, requests, polling, scheduled pulls and traces against a broker of this project, over real
sockets.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.client import (
    Admin,
    BrokerRefused,
    ClientInstance,
    LitePullConsumer,
    LiteSettings,
    MessageSelector,
    Producer,
    PullConsumer,
    PullStatus,
    ReplyTimeout,
    RequestTimeout,
    ScheduledPull,
    TransactionProducer,
    TransactionState,
)
from rmqcli.client.trace.dispatcher import TRACE_TOPIC
from rmqcli.client.trace.records import Published, decode_trace
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.codes import MessageSysFlag, RequestCode
from rmqcli.codec.headers.offsets import GetMaxOffsetRequestHeader
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.operations.offsets import GET_MAX_OFFSET
from tests.support import PATIENCE

TOPIC, GROUP = "Talk", "TalkGroup"
DAY_MS = 24 * 3600 * 1000
PATIENT: Any = {"timeout": PATIENCE, "send_timeout": PATIENCE}
FIRST = LiteSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@pytest.fixture
async def cluster() -> AsyncIterator[Any]:
    async with broker.embedded(
        transaction_check_interval=100,
        transaction_time_out=50,
        transaction_check_max=1_000_000,
        enable_property_filter=True,
    ) as running:
        yield running


async def poll_until(consumer: LitePullConsumer, count: int) -> list[MessageExt]:
    found: list[MessageExt] = []
    with trio.fail_after(PATIENCE):
        while len(found) < count:
            found += await consumer.poll(1)
    return found


@pytest.fixture
async def late_cluster() -> AsyncIterator[Any]:
    """Checks no transaction until requested, and then as often as it takes: no outcome can be too late."""
    async with broker.embedded(
        transaction_check_interval=100, transaction_time_out=DAY_MS, transaction_check_max=1_000_000
    ) as running:
        yield running


async def ended(producer: TransactionProducer, broker_address: str, count: int) -> None:
    """Waits until the broker has stored the outcomes of `count` transactions, which are reported one-way."""
    header = GetMaxOffsetRequestHeader(topic=SystemTopic.TRANS_OP_HALF, queue_id=0)
    with trio.fail_after(PATIENCE):
        while True:
            reply = await producer.instance.ask(
                broker_address, GET_MAX_OFFSET, header, None, timeout=PATIENCE
            )
            if reply.header.offset >= count:
                return


async def ask_from_now_on(producer: TransactionProducer, broker_address: str) -> None:
    """Makes every half message old enough for a check."""
    await producer.instance.call(
        broker_address, RequestCode.UPDATE_BROKER_CONFIG, body=b"transactionTimeOut=0", timeout=PATIENCE
    )


async def test_commit_rollback_and_check_back(late_cluster: Any) -> None:
    """Three transactions; the broker checks the one that was left open, and the database has the answer."""
    cluster = late_cluster
    database: dict[str, TransactionState] = {}
    asked: Counter[str] = Counter()
    twice = trio.Event()

    async def check(half: MessageExt) -> TransactionState:
        name = half.body.decode()
        asked[name] += 1
        if asked[name] == 2:
            twice.set()
        return database.get(name, TransactionState.UNKNOW)

    async with (
        TransactionProducer("TxGroup", check, namesrv=cluster.namesrv, **PATIENT) as producer,
        LitePullConsumer(GROUP, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        await producer.send(Message.of(TOPIC, b"plain"))
        await consumer.subscribe(TOPIC)
        ids = {}
        for name, said in (
            ("committed", TransactionState.COMMIT_MESSAGE),
            ("rolled back", TransactionState.ROLLBACK_MESSAGE),
            ("left open", TransactionState.UNKNOW),
        ):

            async def local(message: Message, said: TransactionState = said) -> TransactionState:
                return said

            result = await producer.send_in_transaction(Message.of(TOPIC, name, tags="t"), local)
            assert result.outcome_sent
            ids[name] = result.sent.msg_id
        assert not asked
        await ended(producer, cluster.broker_address, 2)
        await ask_from_now_on(producer, cluster.broker_address)
        first = await poll_until(consumer, 2)
        assert {message.body for message in first} == {b"plain", b"committed"}
        committed = next(message for message in first if message.body == b"committed")
        assert committed.sys_flag & MessageSysFlag.TRANSACTION_ROLLBACK == MessageSysFlag.TRANSACTION_COMMIT
        assert (committed.msg_id, committed.tags) == (ids["committed"], "t")
        with trio.fail_after(PATIENCE):
            await twice.wait()
        database["left open"] = TransactionState.COMMIT_MESSAGE
        late = await poll_until(consumer, 1)  # once for each answer that commits
        assert {(message.body, message.msg_id) for message in late} == {(b"left open", ids["left open"])}
        assert set(asked) == {"left open"}


async def test_another_producer_of_the_group_is_asked(cluster: Any) -> None:
    """The sender of the half message has ended."""

    async def unknown(half: object) -> TransactionState:
        return TransactionState.UNKNOW

    async def commit(half: MessageExt) -> TransactionState:
        return TransactionState.COMMIT_MESSAGE

    async with TransactionProducer("TxGroup", unknown, namesrv=cluster.namesrv, **PATIENT) as first:
        await first.send_in_transaction(Message.of(TOPIC, b"orphan"), unknown)
    async with (
        TransactionProducer("TxGroup", commit, namesrv=cluster.namesrv, **PATIENT) as second,
        LitePullConsumer(GROUP, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        await second.send(Message.of(TOPIC, b"plain"))
        await consumer.subscribe(TOPIC)
        assert {message.body for message in await poll_until(consumer, 2)} == {b"plain", b"orphan"}


async def answer_all(consumer: LitePullConsumer, producer: Producer) -> None:
    while True:
        for message in await consumer.poll(1):
            await producer.reply(message, b"re: " + message.body)


async def no_reply(asking: Producer) -> None:
    """A busy machine may need longer for sending alone."""
    for seconds in (0.5, 5, 50):
        with contextlib.suppress(RequestTimeout):
            with pytest.raises(ReplyTimeout):
                await asking.request(Message.of(TOPIC, b"nobody listens"), timeout=seconds)
            return
    pytest.fail("not sent in time")


async def test_requests_and_replies(cluster: Any) -> None:
    replies: dict[bytes, bytes] = {}
    async with (
        Producer("Asking", namesrv=cluster.namesrv, **PATIENT) as asking,
        Producer("Answering", namesrv=cluster.namesrv, **PATIENT) as answering,
        LitePullConsumer(GROUP, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        await asking.send(Message.of(TOPIC, b"makes the topic"))
        await consumer.subscribe(TOPIC)
        await poll_until(consumer, 1)

        async def ask(body: bytes) -> None:
            replies[body] = (await asking.request(Message.of(TOPIC, body), timeout=PATIENCE)).body

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_all, consumer, answering)
            async with trio.open_nursery() as requests:
                for number in range(20):
                    requests.start_soon(ask, b"%d" % number)
            nursery.cancel_scope.cancel()
        await no_reply(asking)
        left = (await poll_until(consumer, 1))[0]
    assert replies == {b"%d" % number: b"re: %d" % number for number in range(20)}
    # The one who asked has gone meanwhile
    async with Producer("Answering", namesrv=cluster.namesrv, retries=0, **PATIENT) as answering:
        assert await answering.reply(left, b"too late") is None


async def test_polling_in_a_group(cluster: Any) -> None:
    async with (
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
        LitePullConsumer(GROUP, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE) as one,
        LitePullConsumer(GROUP, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE) as two,
    ):
        await producer.send(Message.of(TOPIC, b"first"))
        shared = [trio.Event(), trio.Event()]

        def hearing(event: trio.Event) -> Any:
            return lambda topic, queues, mine: event.set() if len(mine) == 2 else None

        await one.subscribe(TOPIC, on_change=hearing(shared[0]))
        await two.subscribe(TOPIC, on_change=hearing(shared[1]))
        with trio.fail_after(PATIENCE):
            for event in shared:
                await event.wait()
        bodies = [b"%d" % number for number in range(200)]
        for body in bodies:
            await producer.send(Message.of(TOPIC, body))
        found: Counter[bytes] = Counter()
        with trio.fail_after(PATIENCE):
            while len(found) < 201:
                for consumer in (one, two):
                    found.update(message.body for message in await consumer.poll(0.1))
        assert set(found) == {b"first", *bodies}
        for consumer in (one, two):
            await consumer.commit()
        async with Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin:
            lags = await admin.offsets.lags(GROUP, TOPIC)
    assert [lag.lag for lag in lags] == [0, 0, 0, 0]


async def test_seek_and_conditions(cluster: Any) -> None:
    queue = MessageQueue(TOPIC, cluster.broker_name, 0)
    async with (
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
        LitePullConsumer(GROUP, settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        await producer.message_queues(TOPIC)
        for number in range(50):
            message = Message.of(TOPIC, b"%d" % number, properties={"n": str(number)})
            await producer.send(message, queue=queue)
        await consumer.assign([queue])
        assert len(await poll_until(consumer, 50)) == 50
        await consumer.seek(queue, 47)
        assert [m.body for m in await poll_until(consumer, 3)] == [b"47", b"48", b"49"]
        await consumer.seek_to_begin(queue)
        assert (await consumer.poll(PATIENCE))[0].queue_offset == 0
    async with LitePullConsumer("Sql", settings=FIRST, namesrv=cluster.namesrv, timeout=PATIENCE) as consumer:
        await consumer.subscribe(TOPIC, MessageSelector.by_sql("n BETWEEN 10 AND 12"))
        assert [m.body for m in await poll_until(consumer, 3)] == [b"10", b"11", b"12"]
        with pytest.raises(BrokerRefused):
            await consumer.subscribe("TBW102", MessageSelector.by_sql("n BETWEEN"))


async def test_scheduled_pulls(cluster: Any) -> None:
    found: Counter[bytes] = Counter()
    done = trio.Event()

    async def task(consumer: PullConsumer, queue: MessageQueue) -> float:
        result = await consumer.pull(queue, await consumer.committed(queue) or 0)
        if result.status is PullStatus.FOUND:
            found.update(message.body for message in result.messages)
            await consumer.commit(queue, result.next_begin_offset)
        if len(found) == 40:
            done.set()
        return 0.02

    async with (
        ClientInstance(cluster.namesrv, timeout=PATIENCE) as instance,
        Producer(instance=instance) as producer,
        PullConsumer(GROUP, instance=instance) as consumer,
        trio.open_nursery() as nursery,
    ):
        for number in range(40):
            await producer.send(Message.of(TOPIC, b"%d" % number), timeout=PATIENCE)
        nursery.start_soon(ScheduledPull(consumer, {TOPIC: task}).run)
        with trio.fail_after(PATIENCE):
            await done.wait()
        nursery.cancel_scope.cancel()
    assert found == Counter(b"%d" % number for number in range(40))


async def test_traces_are_found_by_id_and_by_key(cluster: Any) -> None:
    async with Producer("Traced", namesrv=cluster.namesrv, trace=True, **PATIENT) as producer:
        results = [await producer.send(Message.of(TOPIC, b"x", keys=f"k{number}")) for number in range(150)]
    async with Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin:
        by_id = await admin.messages.query_by_key(TRACE_TOPIC, results[149].msg_id)
        by_key = await admin.messages.query_by_key(TRACE_TOPIC, "k149")
    (message,) = by_id.messages
    assert by_key.messages == by_id.messages
    records = decode_trace(message.body.decode())
    (record,) = [one for one in records if one.msg_id == results[149].msg_id]
    assert isinstance(record, Published)
    assert (record.group, record.topic, record.keys) == ("Traced", TOPIC, "k149")
    assert record.offset_msg_id == results[149].offset_msg_id
    assert record.store_host == cluster.broker_address
