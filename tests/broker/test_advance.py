"""Clusters for tests whose clock is moved forward."""

from __future__ import annotations

import queue

import pytest
import trio
import trio.testing

from rmqcli import broker
from rmqcli.client import (
    ConsumeContext,
    ConsumeResult,
    Message,
    MessageExt,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from rmqcli.client import Producer as TrioProducer
from rmqcli.client.sync import Producer
from rmqcli.client.sync import PushConsumer as ThreadedConsumer
from tests.support import PATIENCE


async def test_delayed_messages_and_checks_of_transactions_are_due_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    heard, checked = trio.Event(), trio.Event()

    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        heard.set()
        return ConsumeResult.SUCCESS

    async def check(message: MessageExt) -> TransactionState:
        checked.set()
        return TransactionState.COMMIT_MESSAGE

    async with (
        broker.embedded_in_memory() as cluster,
        TrioProducer("later", **cluster.client()) as producer,
        TransactionProducer("unsure", check, **cluster.client()) as unsure,
        PushConsumer("mail", {"reminders": "*"}, listen, **cluster.client()),
    ):
        await producer.send(Message.of("reminders", b"pay", delay_level=18))
        await unsure.send_in_transaction(Message.of("orders", b"1"), lambda _: None)
        await trio.sleep(1.5)  # the consumer has heard of the topic
        assert not heard.is_set()
        begun = trio.current_time()
        cluster.advance("2h")
        await heard.wait()
        await checked.wait()
        assert trio.current_time() - begun < 0.5


def test_the_clock_is_moved_from_a_thread() -> None:
    heard: queue.Queue[bytes] = queue.Queue()

    def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        for message in messages:
            heard.put(message.body)
        return ConsumeResult.SUCCESS

    with broker.embedded_in_thread() as cluster, Producer("later", namesrv=cluster.namesrv) as producer:
        producer.send(Message.of("reminders", b"in two hours", delay_level=18))
        producer.send(Message.of("reminders", b"in one hour", delay_level=17))
        with ThreadedConsumer("mail", {"reminders": "*"}, listen, namesrv=cluster.namesrv):
            cluster.advance("1h 59m")
            assert heard.get(timeout=PATIENCE) == b"in one hour"
            assert heard.empty()
            cluster.advance(60)
            assert heard.get(timeout=PATIENCE) == b"in two hours"


async def test_a_cluster_in_a_thread_is_advanced_by_a_trio_test() -> None:
    with broker.embedded_in_thread() as cluster:
        cluster.advance("1h")
        with pytest.raises(ValueError, match="is negative"):
            cluster.advance(-1)


def test_durations_are_refused_by_name() -> None:
    with broker.embedded_in_thread() as cluster:
        with pytest.raises(ValueError, match="'soon' is not a duration"):
            cluster.advance("soon")
        with pytest.raises(ValueError, match="-1000 ms is negative"):
            cluster.advance(-1)
