"""The lag of groups that pop: nothing that waits for an acknowledgement counts as consumed."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker import embedded_in_memory
from rmqcli.broker.testing.in_memory import MemoryCluster
from rmqcli.client import Admin, ConsumeFromWhere, Message, Producer, SimpleConsumer
from rmqcli.client.produce.targets import by_queue_id
from rmqcli.codec.receipt_handle import pop_retry_topic

TOPIC, GROUP = "orders", "packers"
RETRY = pop_retry_topic(GROUP, TOPIC)


async def fill(cluster: MemoryCluster, admin: Admin, count: int = 6) -> None:
    await admin.topics.create(TOPIC, read_queues=1, write_queues=1)
    async with Producer("shop", **cluster.client()) as producer:
        for number in range(count):
            await producer.send(Message.of(TOPIC, str(number)), selector=by_queue_id(0))


def consuming(cluster: MemoryCluster, **options: Any) -> SimpleConsumer:
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    return SimpleConsumer(GROUP, {TOPIC: "*"}, consume_from=first, **options, **cluster.client())


async def lags(admin: Admin) -> dict[str, tuple[int | None, int | None]]:
    return {one.queue.topic: (one.lag, one.in_flight) for one in await admin.offsets.lags(GROUP)}


@pytest.mark.parametrize("orderly", [False, True])
async def test_what_is_in_flight_counts(orderly: bool, autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        await fill(cluster, admin)
        async with consuming(cluster, orderly=orderly) as consumer:
            messages = await consumer.receive(4, 60)
            assert (await lags(admin))[TOPIC] == (6, 4)
            await consumer.ack(messages[0])
            assert (await lags(admin))[TOPIC] == (5, 3)
            for message in messages[1:]:
                await consumer.ack(message)
            assert (await lags(admin))[TOPIC] == (2, 0)


async def test_what_is_acknowledged_out_of_order_is_consumed(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        await fill(cluster, admin)
        async with consuming(cluster) as consumer:
            messages = await consumer.receive(6, 60)
            for message in messages[1:]:
                await consumer.ack(message)
            assert (await lags(admin))[TOPIC] == (1, 1)


@pytest.mark.parametrize("online", [False, True])
async def test_what_waits_in_a_retry_topic_counts(online: bool, autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, Admin(**cluster.client()) as admin:
        await fill(cluster, admin)
        async with consuming(cluster) as consumer:
            await consumer.receive(3, 10)
            if online:
                await trio.sleep(20)
                assert await lags(admin) == {TOPIC: (3, 0), RETRY: (3, 0)}
        await trio.sleep(20)
        # No member has looked at the retry topic yet.
        assert await lags(admin) == {TOPIC: (3, 0), RETRY: (3, 0)}
        assert (await admin.groups.describe(GROUP)).lag == 6
        (summary,) = [one for one in await admin.groups.summaries() if one.name == GROUP]
        assert summary.lag == 6
