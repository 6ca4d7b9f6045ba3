"""Consumers, administration, transactions and requests for threads, with a broker on real sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from rmqcli.broker import Cluster
from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.client import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeResult,
    InvalidRequest,
    LiteSettings,
    Message,
    MessageExt,
    OrderlyContext,
    OrderlyResult,
    PushSettings,
    ReplyTimeout,
    TransactionState,
)
from rmqcli.client.sync import (
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
    with embedded_in_thread(message_delay_level="1s 1s 1s 1s", transaction_check_interval=300) as cluster:
        yield cluster


def sent(cluster: Cluster, topic: str, *bodies: bytes) -> None:
    with Admin(namesrv=cluster.namesrv) as admin:
        admin.topics.create(topic, read_queues=1, write_queues=1)
    with Producer("G_fill", namesrv=cluster.namesrv) as producer:
        for body in bodies:
            producer.send(Message.of(topic, body))


def test_a_listener_runs_in_threads_and_its_failures_come_again(cluster: Cluster) -> None:
    sent(cluster, "Pushed", b"1", b"2")
    heard: SimpleQueue[tuple[bytes, int, str]] = SimpleQueue()

    def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        for message in messages:
            heard.put((message.body, message.reconsume_times, threading.current_thread().name))
            if message.body == b"2" and not message.reconsume_times:
                raise KeyError
        return ConsumeResult.SUCCESS

    with PushConsumer(
        "G_push", {"Pushed": "*"}, listen, settings=SETTINGS, namesrv=cluster.namesrv
    ) as consumer:
        found = sorted(heard.get(timeout=60) for _ in range(3))
        assert [queue.topic for queue in consumer.queues if not queue.topic.startswith("%")] == ["Pushed"]
        assert consumer.troubles("Pushed") == {}
    assert [one[:2] for one in found] == [(b"1", 0), (b"2", 0), (b"2", 1)]
    assert "rmq clients" not in {one[2] for one in found}


def test_an_orderly_listener(cluster: Cluster) -> None:
    sent(cluster, "Ordered", b"1", b"2", b"3")
    heard: SimpleQueue[bytes] = SimpleQueue()

    def listen(messages: list[MessageExt], context: OrderlyContext) -> OrderlyResult:
        for message in messages:
            heard.put(message.body)
        return OrderlyResult.SUCCESS

    with PushConsumer(
        "G_order", {"Ordered": "*"}, listen, orderly=True, settings=SETTINGS, namesrv=cluster.namesrv
    ):
        assert [heard.get(timeout=60) for _ in range(3)] == [b"1", b"2", b"3"]


def test_an_async_listener_is_refused() -> None:
    async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        return ConsumeResult.SUCCESS

    with pytest.raises(InvalidRequest, match="plain function"):
        PushConsumer("G_push", {"Pushed": "*"}, listen)  # type: ignore[arg-type]


def test_polls(cluster: Cluster) -> None:
    sent(cluster, "Polled", b"1", b"2")
    with LitePullConsumer(
        "G_poll", settings=LiteSettings(auto_commit=False), namesrv=cluster.namesrv
    ) as consumer:
        (queue,) = consumer.message_queues("Polled")
        consumer.assign([queue])
        consumer.seek_to_begin(queue)
        assert [message.body for message in consumer.poll(60)] == [b"1", b"2"]
        consumer.commit()
        assert consumer.committed(queue) == 2 and consumer.assignment == [queue]
        consumer.pause([queue])
        consumer.seek(queue, 1)
        assert consumer.poll(0.1) == []
        consumer.resume([queue])
        assert [message.body for message in consumer.poll(60)] == [b"2"]


def test_a_poll_in_a_thread_ends_with_the_consumer(cluster: Cluster) -> None:
    sent(cluster, "Empty")
    with (
        Admin(namesrv=cluster.namesrv) as admin,
        LitePullConsumer("G_empty", namesrv=cluster.namesrv) as consumer,
    ):
        consumer.subscribe("Empty")
        assert consumer.poll(0.05) == []
        assert "Empty" in admin.topics.names() and admin.name_servers.addresses


def test_receives(cluster: Cluster) -> None:
    sent(cluster, "Received", b"1")
    with SimpleConsumer(
        "G_receive", {"Received": "*"}, consume_from=FIRST, await_duration=60, namesrv=cluster.namesrv
    ) as consumer:
        (message,) = consumer.receive(1, 30)
        consumer.change_invisible_duration(message, 0)
        (message,) = consumer.receive(1, 30)
        assert (message.body, message.reconsume_times) == (b"1", 1)
        consumer.ack(message)


def test_pulls(cluster: Cluster) -> None:
    sent(cluster, "PulledOnes", b"1", b"2")
    with PullConsumer("G_pull", namesrv=cluster.namesrv) as consumer:
        (queue,) = consumer.message_queues("PulledOnes")
        assert [message.body for message in consumer.pull(queue, 1).messages] == [b"2"]
        consumer.commit(queue, 2)
        assert (consumer.committed(queue), consumer.max_offset(queue)) == (2, 2)


def test_a_local_transaction_runs_in_the_calling_thread(cluster: Cluster) -> None:
    where: list[threading.Thread] = []
    checked: SimpleQueue[bytes] = SimpleQueue()

    def check(half: MessageExt) -> TransactionState:
        checked.put(half.body)
        return TransactionState.COMMIT_MESSAGE

    def commit(half: Message) -> TransactionState:
        where.append(threading.current_thread())
        return TransactionState.COMMIT_MESSAGE

    def fail(half: Message) -> TransactionState:
        raise KeyError("no row")

    def interrupt(half: Message) -> TransactionState:
        raise KeyboardInterrupt

    sent(cluster, "Transfers")
    with TransactionProducer("G_tx", check, namesrv=cluster.namesrv) as producer:
        done = producer.send_in_transaction(Message.of("Transfers", b"1"), commit)
        assert done.state is TransactionState.COMMIT_MESSAGE and done.outcome_sent
        assert where == [threading.current_thread()]
        with pytest.raises(KeyError, match="no row"):
            producer.send_in_transaction(Message.of("Transfers", b"2"), fail)
        with pytest.raises(KeyboardInterrupt):
            producer.send_in_transaction(Message.of("Transfers", b"3"), interrupt)
        with pytest.raises(InvalidRequest, match="body"):
            producer.send_in_transaction(Message.of("Transfers", b""), commit)
    with LitePullConsumer(
        "G_tx", settings=LiteSettings(consume_from=FIRST), namesrv=cluster.namesrv
    ) as consumer:
        consumer.subscribe("Transfers")
        assert [message.body for message in consumer.poll(60)] == [b"1"]


def test_requests_and_replies(cluster: Cluster) -> None:
    sent(cluster, "Questions")
    with Producer("G_ask", namesrv=cluster.namesrv) as producer:

        def answer(messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
            for message in messages:
                producer.reply(message, message.body.upper())
            return ConsumeResult.SUCCESS

        with pytest.raises(ReplyTimeout):
            producer.request(Message.of("Questions", b"nobody"), timeout=2)
        with PushConsumer("G_answer", {"Questions": "*"}, answer, settings=SETTINGS, namesrv=cluster.namesrv):
            assert producer.request(Message.of("Questions", b"who"), timeout=60).body == b"WHO"


def test_a_call_blocks_a_running_loop_as_any_other_would(cluster: Cluster) -> None:
    async def main() -> list[str]:
        with Admin(namesrv=cluster.namesrv) as admin:
            return admin.topics.names()

    assert asyncio.run(main())
