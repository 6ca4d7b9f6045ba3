"""Consumers, administration, transactions and requests for asyncio, with a broker on real sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from rmqcli.broker import Cluster
from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.client import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeResult,
    LiteSettings,
    Message,
    MessageExt,
    MessageQueue,
    OrderlyContext,
    OrderlyResult,
    PushSettings,
    ReplyTimeout,
    TransactionState,
)
from rmqcli.client.aio import (
    Admin,
    LitePullConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    TransactionProducer,
)

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SETTINGS = PushSettings(consume_from=FIRST, rebalance_interval=1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with embedded_in_thread(message_delay_level="1s 1s 1s 1s") as cluster:
        yield cluster


async def sent(cluster: Cluster, topic: str, *bodies: bytes) -> None:
    async with (
        Admin(namesrv=cluster.namesrv) as admin,
        Producer("G_fill", namesrv=cluster.namesrv) as producer,
    ):
        await admin.topics.create(topic, read_queues=1, write_queues=1)
        for body in bodies:
            await producer.send(Message.of(topic, body))


def test_a_listener_runs_on_the_loop_and_its_failures_come_again(cluster: Cluster) -> None:
    heard: list[tuple[bytes, int]] = []

    async def main() -> None:
        await sent(cluster, "AioPushed", b"1", b"2", b"3")
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            for message in messages:
                heard.append((message.body, message.reconsume_times))
                if message.body == b"2" and not message.reconsume_times:
                    raise KeyError
                if message.body == b"3" and not message.reconsume_times:
                    raise asyncio.CancelledError
            if len(heard) == 5:
                done.set()
            return ConsumeResult.SUCCESS

        async with PushConsumer(
            "G_aio_push", {"AioPushed": "*"}, listen, settings=SETTINGS, namesrv=cluster.namesrv
        ) as consumer:
            async with asyncio.timeout(60):
                await done.wait()
            assert [queue.topic for queue in consumer.queues if not queue.topic.startswith("%")] == [
                "AioPushed"
            ]
            consumer.pause()
            consumer.resume()

    asyncio.run(main())
    assert sorted(heard) == [(b"1", 0), (b"2", 0), (b"2", 1), (b"3", 0), (b"3", 1)]


def test_a_plain_listener_runs_in_threads(cluster: Cluster) -> None:
    async def main() -> str:
        await sent(cluster, "AioPlain", b"1")
        heard: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def listen(messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
            loop.call_soon_threadsafe(heard.put_nowait, threading.current_thread().name)
            return OrderlyResult.SUCCESS

        async with PushConsumer(
            "G_aio_plain", {"AioPlain": "*"}, listen, orderly=True, settings=SETTINGS, namesrv=cluster.namesrv
        ):
            return await asyncio.wait_for(heard.get(), 60)

    assert asyncio.run(main()) != threading.current_thread().name


def test_a_listener_that_does_not_end_is_cancelled_with_its_consumer(cluster: Cluster) -> None:
    async def main() -> list[str]:
        await sent(cluster, "AioStuck", b"1")
        said: list[str] = []
        begun = asyncio.Event()

        async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
            begun.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                said.append("cancelled")
                raise
            return ConsumeResult.SUCCESS

        settings = PushSettings(consume_from=FIRST, rebalance_interval=1, grace=0)
        async with PushConsumer(
            "G_aio_stuck", {"AioStuck": "*"}, listen, settings=settings, namesrv=cluster.namesrv
        ):
            await begun.wait()
        return said

    assert asyncio.run(main()) == ["cancelled"]


def test_polls_and_pulls(cluster: Cluster) -> None:
    async def main() -> None:
        await sent(cluster, "AioPolled", b"1", b"2")
        changes: asyncio.Queue[int] = asyncio.Queue()

        async def changed(topic: str, queues: object, mine: list[MessageQueue]) -> None:
            await changes.put(len(mine))

        lite = LiteSettings(auto_commit=False, consume_from=FIRST)
        async with (
            LitePullConsumer("G_aio_poll", settings=lite, namesrv=cluster.namesrv) as consumer,
            PullConsumer("G_aio_pull", namesrv=cluster.namesrv) as puller,
        ):
            await consumer.subscribe("AioPolled", on_change=changed)  # type: ignore[arg-type]
            assert await asyncio.wait_for(changes.get(), 60) == 1
            assert [message.body for message in await consumer.poll(60)] == [b"1", b"2"]
            (queue,) = consumer.assignment
            await consumer.commit()
            assert await consumer.committed(queue) == 2
            consumer.pause([queue])
            await consumer.seek(queue, 1)
            assert await consumer.poll(0.1) == []
            consumer.resume([queue])
            assert [message.body for message in await consumer.poll(60)] == [b"2"]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await consumer.poll(60)
            await puller.register({"AioPolled": changed})  # type: ignore[dict-item]
            assert await asyncio.wait_for(changes.get(), 60) == 1
            assert [message.body for message in (await puller.pull(queue, 1)).messages] == [b"2"]

    asyncio.run(main())


def test_receives(cluster: Cluster) -> None:
    async def main() -> None:
        await sent(cluster, "AioReceived", b"1")
        async with SimpleConsumer(
            "G_aio_receive",
            {"AioReceived": "*"},
            consume_from=FIRST,
            await_duration=60,
            namesrv=cluster.namesrv,
        ) as consumer:
            (message,) = await consumer.receive(1, 30)
            await consumer.change_invisible_duration(message, 0)
            (message,) = await consumer.receive(1, 30)
            assert (message.body, message.reconsume_times) == (b"1", 1)
            await consumer.ack(message)

    asyncio.run(main())


def test_transactions_run_on_the_loop(cluster: Cluster) -> None:
    async def main() -> None:
        await sent(cluster, "AioTransfers")
        where: list[asyncio.Task[None] | None] = []

        async def check(half: MessageExt) -> TransactionState:
            return TransactionState.UNKNOW

        async def commit(half: Message) -> TransactionState:
            where.append(asyncio.current_task())
            await asyncio.sleep(0)
            return TransactionState.COMMIT_MESSAGE

        async def fail(half: Message) -> TransactionState:
            raise KeyError("no row")

        async with TransactionProducer("G_aio_tx", check, namesrv=cluster.namesrv) as producer:
            done = await producer.send_in_transaction(Message.of("AioTransfers", b"1"), commit)
            assert (
                done.state is TransactionState.COMMIT_MESSAGE and done.outcome_sent and where[0] is not None
            )
            with pytest.raises(KeyError, match="no row"):
                await producer.send_in_transaction(Message.of("AioTransfers", b"2"), fail)

    asyncio.run(main())


def test_requests_and_replies(cluster: Cluster) -> None:
    async def main() -> None:
        await sent(cluster, "AioQuestions")
        async with Producer("G_aio_ask", namesrv=cluster.namesrv) as producer:

            async def answer(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
                for message in messages:
                    await producer.reply(message, message.body.upper())
                return ConsumeResult.SUCCESS

            with pytest.raises(ReplyTimeout):
                await producer.request(Message.of("AioQuestions", b"nobody"), timeout=2)
            async with PushConsumer(
                "G_aio_answer", {"AioQuestions": "*"}, answer, settings=SETTINGS, namesrv=cluster.namesrv
            ):
                reply = await producer.request(Message.of("AioQuestions", b"who"), timeout=60)
                assert reply.body == b"WHO"

    asyncio.run(main())
