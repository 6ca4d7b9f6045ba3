"""Metrics of producers and consumers."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rmqcli.broker import Cluster as RunningCluster
from rmqcli.client import BrokerRefused, InvalidRequest, Message, sync
from rmqcli.client.push.state import OrderlyResult
from tests.client.polling import lite
from tests.client.push.consuming import DONE, LATER, TOPIC, Taken, consumer
from tests.client.scripted import Network, refuse, silent
from tests.client.sending import SEND, Cluster, producing
from tests.client.sending import TOPIC as SENT_TOPIC
from tests.client.watched_cluster import open_cluster


def message() -> Message:
    return Message.of(SENT_TOPIC, b"x")


async def test_sends_that_succeed_fail_and_run(network: Network, autojump_clock: Any) -> None:
    cluster = Cluster(network)
    async with producing(network) as producer:
        await producer.send(message())
        await producer.send_batch([message(), message()])
        await producer.send_oneway(message())
        metrics = producer.metrics()
        assert metrics[:1] + metrics[2:] == (3, 4, 0, 0, 0, 0)

        cluster.a.replies[SEND] = cluster.b.replies[SEND] = refuse(14)
        with pytest.raises(BrokerRefused):
            await producer.send(message())
        with pytest.raises(InvalidRequest):
            await producer.send(Message.of("no topic", b"x"))
        metrics = producer.metrics()
        assert (metrics.sends, metrics.sent, metrics.failed, metrics.retried) == (4, 4, 1, 2)

        cluster.a.replies[SEND] = cluster.b.replies[SEND] = silent
        await producer.send_soon(message())
        with trio.move_on_after(1):
            await producer.send(message())
        metrics = producer.metrics()
        assert (metrics.in_flight, metrics.sends, metrics.failed) == (1, 5, 2)
        assert metrics.seconds == pytest.approx(1, abs=0.01)
    assert (producer.metrics().in_flight, producer.metrics().failed) == (0, 3)


async def test_a_connection_that_is_opened_again(network: Network, autojump_clock: Any) -> None:
    cluster = Cluster(network)
    async with producing(network) as producer:
        for _ in range(8):
            await producer.send(message())
        assert producer.metrics().reconnects == 0
        await cluster.a.drop()
        await trio.sleep(1)
        for _ in range(8):
            await producer.send(message())
        assert producer.metrics().reconnects == 1


async def test_a_listener_that_refuses_and_is_slow(autojump_clock: Any) -> None:
    async with open_cluster({TOPIC: 4}) as cluster:
        for number in range(8):
            cluster.put(cluster.queue(TOPIC, number % 4), b"%d" % number)
        taken = Taken(LATER)
        async with consumer(cluster, taken) as member:
            await trio.sleep(300)
            metrics = member.metrics()
            assert list(metrics) == [9, 0, 8, 1, 0, 0, 0]
            cluster.cut()
            cluster.put(cluster.queue(TOPIC), b"late")
            await trio.sleep(60)
            assert member.metrics().consumed == 9 and member.metrics().reconnects == 1

        async def never(messages: object, context: object) -> object:
            await trio.sleep(2)
            return DONE

        for _ in range(5):
            cluster.put(cluster.queue(TOPIC), b"waits")
        async with consumer(cluster, never, consumers=1) as member:
            await trio.sleep(3)
            metrics = member.metrics()
            assert (metrics.consumed, metrics.waiting, metrics.lag) == (1, 4, 4)
            assert metrics.seconds == pytest.approx(2, abs=0.01)


async def test_an_orderly_listener_that_suspends(autojump_clock: Any) -> None:
    async with open_cluster({TOPIC: 1}) as cluster:
        cluster.put(cluster.queue(TOPIC), b"x")
        answers = [OrderlyResult.SUSPEND, OrderlyResult.SUCCESS]

        async def listen(messages: object, context: object) -> OrderlyResult:
            return answers.pop(0)

        async with consumer(cluster, listen, orderly=True) as member:
            await trio.sleep(60)
            metrics = member.metrics()
    assert (metrics.calls, metrics.consumed, metrics.failed, metrics.lag) == (2, 1, 1, 0)


async def test_polls(autojump_clock: Any) -> None:
    async with open_cluster({TOPIC: 1}) as cluster:
        queue = cluster.queue(TOPIC)
        cluster.put_many(queue, [b"%d" % number for number in range(5)])
        async with lite(cluster, pull_batch_size=2) as reader:
            await reader.assign([queue])
            await reader.seek_to_begin(queue)
            await trio.sleep(1)
            metrics = reader.metrics()
            assert (metrics.calls, metrics.consumed, metrics.waiting, metrics.lag) == (0, 0, 5, 5)
            assert len(await reader.poll()) == 2
            metrics = reader.metrics()
            assert (metrics.calls, metrics.consumed, metrics.waiting, metrics.lag) == (1, 2, 3, 3)
            for _ in range(3):
                await reader.poll()
            metrics = reader.metrics()
            assert (metrics.calls, metrics.consumed, metrics.waiting, metrics.lag) == (3, 5, 0, 0)


def test_threads_read_them_after_the_block_too(rmq_cluster_session: RunningCluster) -> None:
    producer = sync.Producer("G_metrics", namesrv=rmq_cluster_session.namesrv)
    assert producer.metrics().sends == 0
    with producer:
        producer.send(Message.of("Metrics", b"x"))
    assert (producer.metrics().sent, producer.metrics().in_flight) == (1, 0)
