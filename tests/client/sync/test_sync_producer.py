"""The producer for threads, with a broker on real sockets."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from pathlib import Path

import pytest

from rmqcli.broker import Cluster
from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.client import (
    ConnectionLost,
    InvalidRequest,
    Message,
    NoRoute,
    RequestTimeout,
    SendResult,
    SendStatus,
    by_queue_id,
)
from rmqcli.client import Producer as TrioProducer
from rmqcli.client.sync import Producer
from tests.client.hosts import ContextHook, silent_broker


@pytest.fixture
def producer(rmq_cluster_session: Cluster) -> Iterator[Producer]:
    with Producer("G_sync", namesrv=rmq_cluster_session.namesrv) as producer:
        yield producer


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "rmq clients"]


def message(number: int = 0) -> Message:
    return Message.of("SyncSends", b"body %d" % number)


def test_sends(producer: Producer) -> None:
    result = producer.send(message(), selector=by_queue_id(1))
    assert result.status is SendStatus.SEND_OK and result.message_queue.queue_id == 1
    assert producer.send_batch([message(1), message(2)]).status is SendStatus.SEND_OK
    assert len(producer.send_oneway(message())) == 32
    assert result.message_queue in producer.message_queues("SyncSends")


def test_errors_are_raised(producer: Producer) -> None:
    with pytest.raises(InvalidRequest, match="body"):
        producer.send(Message.of("SyncSends", b""))
    with pytest.raises(InvalidRequest, match="body"):
        producer.send_soon(Message.of("SyncSends", b"")).result()
    with pytest.raises(InvalidRequest, match="in_flight"):
        Producer("G_sync", in_flight=0)


def test_signatures_and_docstrings_are_those_of_trio() -> None:
    assert inspect.signature(Producer.send) == inspect.signature(TrioProducer.send)
    assert Producer.send.__doc__ == TrioProducer.send.__doc__ and Producer.__doc__ == TrioProducer.__doc__


def test_futures(rmq_cluster_session: Cluster) -> None:
    called: list[SendResult] = []
    with Producer("G_sync", namesrv=rmq_cluster_session.namesrv, in_flight=4) as producer:
        futures = [producer.send_soon(message(number)) for number in range(100)]
        for future in futures:
            future.add_done_callback(lambda done: called.append(done.result()))
    assert all(future.done() for future in futures)
    assert len({future.result().msg_id for future in futures}) == len(called) == 100


def test_many_threads_use_one_producer(producer: Producer) -> None:
    def work(number: int) -> str:
        if number % 2:
            return producer.send(message(number)).msg_id
        return producer.send_soon(message(number)).result().msg_id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(work, range(200)))) == 200


def test_all_clients_of_a_process_share_a_thread_that_ends_with_the_last(
    rmq_cluster_session: Cluster,
) -> None:
    namesrv = rmq_cluster_session.namesrv
    with Producer("G_one", namesrv=namesrv) as one:
        with Producer("G_two", namesrv=namesrv) as two:
            one.send(message())
            two.send(message())
            assert len(threads()) == 1
        one.send(message())
    assert not threads()


def test_open_and_close_do_what_the_block_does(rmq_cluster_session: Cluster) -> None:
    producer = Producer("G_open", namesrv=rmq_cluster_session.namesrv).open()
    future = producer.send_soon(message())
    producer.close()
    assert future.done() and future.result().status is SendStatus.SEND_OK
    producer.close()
    with pytest.raises(InvalidRequest, match="opened once"):
        producer.open()


def test_a_producer_works_only_while_it_is_open(rmq_cluster_session: Cluster) -> None:
    producer = Producer("G_closed", namesrv=rmq_cluster_session.namesrv)
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="between `open` and `close`"):
            producer.send(message())
        with pytest.raises(InvalidRequest, match="between `open` and `close`"):
            producer.send_soon(message())
        producer.close()
        if producer._open is None:
            producer.open()
            producer.close()


def test_an_exception_in_the_block_cancels_sends_and_futures() -> None:
    with (
        silent_broker() as address,
        pytest.raises(KeyError),
        Producer("G_broken", namesrv=address, timeout=60, send_timeout=60) as producer,
    ):
        future = producer.send_soon(message())
        raise KeyError
    with pytest.raises(CancelledError):
        future.result()


def test_a_future_that_was_cancelled_in_time_is_not_sent(producer: Producer) -> None:
    futures = [producer.send_soon(message(number)) for number in range(50)]
    cancelled = [future for future in futures if future.cancel()]
    wait_for(futures)
    assert all(future.cancelled() for future in cancelled)
    assert producer.send(message()).status is SendStatus.SEND_OK


def test_a_send_runs_in_the_context_of_its_caller(rmq_cluster_session: Cluster) -> None:
    hook = ContextHook()
    with Producer("G_sync", namesrv=rmq_cluster_session.namesrv, hook=hook) as producer:
        hook.caller.set("first")
        future = producer.send_soon(message())
        hook.caller.set("second")
        future.result()
        producer.send_soon(message()).result()
        producer.send(message())
    assert hook.seen == ["first", "second", "second"]


def test_a_callback_may_send_soon_but_not_wait(producer: Producer) -> None:
    outcomes: list[object] = []
    done = threading.Event()

    def again(_: object) -> None:
        outcomes.append(producer.send_soon(message()))
        try:
            producer.send(message())
        except InvalidRequest as error:
            outcomes.append(error)
        done.set()

    producer.send_soon(message()).add_done_callback(again)
    assert done.wait(10)
    sent, refused = outcomes
    assert "must not wait" in str(refused)
    assert sent.result().status is SendStatus.SEND_OK  # type: ignore[attr-defined]


def test_a_slow_broker_makes_a_timeout_and_delays_nobody_else(
    producer: Producer, rmq_cluster_session: Cluster
) -> None:
    cluster = rmq_cluster_session
    with silent_broker() as address:
        slow = {cluster.broker_address: address}
        with Producer("G_slow", namesrv=cluster.namesrv, address_map=slow, retries=0) as waiting:
            waiting.message_queues("SyncSends")
            future = waiting.send_soon(message(), timeout=1)
            assert producer.send(message()).status is SendStatus.SEND_OK
            with pytest.raises((RequestTimeout, ConnectionLost)):
                waiting.send(message(), timeout=1)
            with pytest.raises((RequestTimeout, ConnectionLost)):
                future.result()


def test_a_broker_that_is_started_again_gets_the_next_sends(tmp_path: Path) -> None:
    with embedded_in_thread(store=tmp_path / "store") as first:
        port, names = (int(address.rpartition(":")[2]) for address in (first.broker_address, first.namesrv))
        producer = Producer("G_again", namesrv=first.namesrv, retries=0).open()
        producer.send(message())
    with pytest.raises(Exception, match=r"connect|lost"):
        producer.send(message())
    with embedded_in_thread(store=tmp_path / "store", port=port, namesrv_port=names):
        futures = [producer.send_soon(message(number)) for number in range(10)]
        assert {future.result().status for future in futures} == {SendStatus.SEND_OK}
        producer.close()


def test_a_topic_that_is_missing() -> None:
    with (
        embedded_in_thread(auto_create_topic_enable=False) as cluster,
        Producer("G_missing", namesrv=cluster.namesrv) as producer,
        pytest.raises(NoRoute),
    ):
        producer.send(message())
