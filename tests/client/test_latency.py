"""Brokers that are avoided, retries after a status, selectors."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio

from rmqcli.client import BrokerRefused, InvalidRequest, SendStatus, by_machine_room, by_random
from rmqcli.client.produce.targets import RoundRobin
from rmqcli.client.routing.latency_fault_tolerance import LatencyFaults, aside_for
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from tests.client.scripted import Network, refuse, sent
from tests.client.sending import SEND, TOPIC, Cluster, flush_timeout, producing


@pytest.mark.parametrize(
    ("latency", "aside"),
    [
        (0.0, 0),
        (0.05, 0),
        (0.1, 0),
        (0.549, 0),
        (0.55, 30),
        (1.0, 60),
        (2.0, 120),
        (3.0, 180),
        (14.9, 180),
        (15.0, 600),
        (30.0, 600),
    ],
)
def test_time_aside(latency: float, aside: float) -> None:
    assert aside_for(latency) == aside


def queues_of(*brokers: str) -> list[MessageQueue]:
    return [MessageQueue(TOPIC, broker, queue_id) for broker in brokers for queue_id in (0, 1)]


async def test_a_slow_broker_comes_back(autojump_clock: Any) -> None:
    faults, turn = LatencyFaults(random.Random(1)), RoundRobin(random.Random(2))
    queues = queues_of("a", "b")
    faults.update("a", 0.6)
    assert {faults.choose(queues, turn.choose).broker_name for _ in range(8)} == {"b"}
    await trio.sleep(29.9)
    assert not faults.is_available("a")
    await trio.sleep(0.2)
    assert {faults.choose(queues, turn.choose).broker_name for _ in range(8)} == {"a", "b"}


async def test_when_all_are_slow_the_better_half_is_used(autojump_clock: Any) -> None:
    faults, turn = LatencyFaults(random.Random(1)), RoundRobin(random.Random(2))
    for broker, latency in (("a", 2.0), ("b", 0.6), ("c", 5.0), ("d", 0.7)):
        faults.update(broker, latency)
    faults.update("c", 0.0, failed=True)
    chosen = {faults.choose(queues_of("a", "b", "c", "d"), turn.choose).broker_name for _ in range(12)}
    assert chosen == {"b", "d"}


async def test_the_only_broker_is_used_however_bad(autojump_clock: Any) -> None:
    faults, turn = LatencyFaults(random.Random(1)), RoundRobin(random.Random(2))
    faults.update("a", 0.0, failed=True)
    assert {faults.choose(queues_of("a"), turn.choose).queue_id for _ in range(4)} == {0, 1}


async def test_producer_leaves_a_failing_broker_alone(network: Network, autojump_clock: Any) -> None:
    cluster = Cluster(network)
    cluster.a.replies[SEND] = refuse(14)
    async with producing(network, latency_faults=True) as producer:
        for _ in range(12):
            assert (await producer.send(Message.of(TOPIC, b"x"))).message_queue.broker_name == "broker-b"
        assert cluster.a.count(SEND) <= 1
        cluster.a.replies[SEND] = sent
        await trio.sleep(601)
        found = {(await producer.send(Message.of(TOPIC, b"x"))).message_queue.broker_name for _ in range(4)}
    assert found == {"broker-a", "broker-b"}


async def test_a_refused_message_is_not_a_fault_of_the_broker(network: Network, autojump_clock: Any) -> None:
    cluster = Cluster(network)
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = refuse(13)
    async with producing(network, latency_faults=True) as producer:
        for _ in range(4):
            with pytest.raises(BrokerRefused):
                await producer.send(Message.of(TOPIC, b"x"))
        cluster.a.replies[SEND] = cluster.b.replies[SEND] = sent
        found = {(await producer.send(Message.of(TOPIC, b"x"))).message_queue.broker_name for _ in range(4)}
    assert found == {"broker-a", "broker-b"}


async def test_another_broker_after_a_status(network: Network, autojump_clock: Any) -> None:
    cluster = Cluster(network)
    cluster.a.replies[SEND] = flush_timeout
    async with producing(network, retry_unstored=True) as producer:
        results = [await producer.send(Message.of(TOPIC, b"x")) for _ in range(4)]
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert cluster.a.count(SEND) > 0


async def test_the_last_status_is_the_result_when_no_broker_does_better(
    network: Network, autojump_clock: Any
) -> None:
    cluster = Cluster(network)
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = flush_timeout
    async with producing(network, retry_unstored=True) as producer:
        result = await producer.send(Message.of(TOPIC, b"x"))
    assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
    assert len(cluster.sends()) == 3


async def test_a_stored_message_stays_stored_when_the_others_fail(
    network: Network, autojump_clock: Any
) -> None:
    cluster = Cluster(network)
    cluster.a.replies[SEND] = flush_timeout
    cluster.b.replies[SEND] = refuse(2)
    found = set()
    async with producing(network, retry_unstored=True) as producer:
        for _ in range(4):
            try:
                found.add((await producer.send(Message.of(TOPIC, b"x"))).status)
            except BrokerRefused as error:
                # The message began at the broker that takes none
                assert error.brokers[0] == "broker-b"
    assert found == {SendStatus.FLUSH_DISK_TIMEOUT}


def test_machine_room_selector() -> None:
    queues = queues_of("east@a", "west@b", "plain")
    select = by_machine_room({"west"})
    chosen = [select(queues, Message.of(TOPIC, b"")) for _ in range(4)]
    assert [queue.queue_id for queue in chosen] == [0, 1, 0, 1]
    assert {queue.broker_name for queue in chosen} == {"west@b"}
    with pytest.raises(ValueError, match="no queue in north"):
        by_machine_room({"north"})(queues, Message.of(TOPIC, b""))


def test_random_selector() -> None:
    queues = queues_of("a", "b")
    select = by_random(random.Random(1))
    assert {select(queues, Message.of(TOPIC, b"")) for _ in range(100)} == set(queues)


async def test_a_selector_that_finds_no_queue(network: Network, autojump_clock: Any) -> None:
    cluster = Cluster(network)
    async with producing(network) as producer:
        with pytest.raises(InvalidRequest, match="no queue in north"):
            await producer.send(Message.of(TOPIC, b"x"), selector=by_machine_room({"north"}))
    assert cluster.a.count(RequestCode.SEND_MESSAGE_V2) == 0
