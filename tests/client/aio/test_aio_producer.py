"""The producer for asyncio, with a broker on real sockets, on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from rmqcli.broker import Cluster
from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.client import (
    ConnectionLost,
    InvalidRequest,
    Message,
    RequestTimeout,
    SendResult,
    SendStatus,
    by_queue_id,
)
from rmqcli.client import Producer as TrioProducer
from rmqcli.client.aio import Producer
from tests.client.hosts import ContextHook, silent_broker

Run = Callable[[Awaitable[None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return asyncio.run if request.param == "asyncio" else uvloop.run  # type: ignore[return-value]


def message(number: int = 0) -> Message:
    return Message.of("AioSends", b"body %d" % number)


def test_sends_and_errors(run: Run, rmq_cluster_session: Cluster) -> None:
    async def main() -> None:
        async with Producer("G_aio", namesrv=rmq_cluster_session.namesrv) as producer:
            result = await producer.send(message(), selector=by_queue_id(1))
            assert result.status is SendStatus.SEND_OK and result.message_queue.queue_id == 1
            assert (await producer.send_batch([message(1), message(2)])).status is SendStatus.SEND_OK
            assert len(await producer.send_oneway(message())) == 32
            assert result.message_queue in await producer.message_queues("AioSends")
            with pytest.raises(InvalidRequest, match="body"):
                await producer.send(Message.of("AioSends", b""))
            refused = await producer.send_soon(Message.of("AioSends", b""))
            with pytest.raises(InvalidRequest, match="body"):
                await refused
        for use in (producer.send, producer.send_soon):
            with pytest.raises(InvalidRequest, match="between `open` and `close`"):
                await use(message())
        assert len(asyncio.all_tasks()) == 1

    run(main())


def test_signatures_and_docstrings_are_those_of_trio() -> None:
    assert inspect.signature(Producer.send) == inspect.signature(TrioProducer.send)
    assert Producer.send.__doc__ == TrioProducer.send.__doc__ and Producer.__doc__ == TrioProducer.__doc__


def test_futures(run: Run, rmq_cluster_session: Cluster) -> None:
    async def main() -> None:
        async with Producer("G_aio", namesrv=rmq_cluster_session.namesrv, in_flight=4) as producer:
            futures = [await producer.send_soon(message(number)) for number in range(100)]
        assert len({future.result().msg_id for future in futures}) == 100

    run(main())


def test_a_send_runs_in_the_context_of_its_caller(run: Run, rmq_cluster_session: Cluster) -> None:
    hook = ContextHook()

    async def main() -> None:
        async with Producer("G_aio", namesrv=rmq_cluster_session.namesrv, hook=hook) as producer:
            hook.caller.set("first")
            future = await producer.send_soon(message())
            hook.caller.set("second")
            await future
            await (await producer.send_soon(message()))
            await producer.send(message())
            assert hook.caller.get() == "second"

    run(main())
    assert hook.seen == ["first", "second", "second"]


def test_tasks_of_a_group_use_one_producer(run: Run, rmq_cluster_session: Cluster) -> None:
    async def main() -> None:
        results: list[SendResult] = []

        async def work(number: int) -> None:
            results.append(await producer.send(message(number)))

        async with (
            Producer("G_aio", namesrv=rmq_cluster_session.namesrv) as producer,
            asyncio.TaskGroup() as group,
        ):
            for number in range(100):
                group.create_task(work(number))
        assert len({result.msg_id for result in results}) == 100

    run(main())


def test_a_slow_broker_makes_a_timeout_and_delays_nobody_else(run: Run, rmq_cluster_session: Cluster) -> None:
    cluster = rmq_cluster_session

    async def main(address: str) -> None:
        slow = {cluster.broker_address: address}
        async with (
            Producer("G_quick", namesrv=cluster.namesrv) as quick,
            Producer("G_slow", namesrv=cluster.namesrv, address_map=slow, retries=0) as waiting,
        ):
            await waiting.message_queues("AioSends")
            late = asyncio.create_task(waiting.send(message(), timeout=1))
            assert (await quick.send(message())).status is SendStatus.SEND_OK
            with pytest.raises((RequestTimeout, ConnectionLost)):
                await late

    with silent_broker() as address:
        run(main(address))


def test_a_send_is_cancelled_by_a_timeout_a_group_and_a_task(run: Run) -> None:
    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise KeyError

    async def main(address: str) -> None:
        async with Producer("G_slow", namesrv=address, timeout=60, send_timeout=60) as producer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await producer.send(message())
            with pytest.raises(ExceptionGroup) as failed:
                async with asyncio.TaskGroup() as group:
                    sending = group.create_task(producer.send(message()))
                    group.create_task(fail())
            assert sending.cancelled() and [type(error) for error in failed.value.exceptions] == [KeyError]
            sending = asyncio.create_task(producer.send(message()))
            await asyncio.sleep(0)
            sending.cancel()
            sending.cancel()
            await asyncio.wait([sending])
            assert sending.cancelled()

    with silent_broker() as address:
        run(main(address))


def test_an_exception_in_the_block_cancels_sends_and_futures(run: Run) -> None:
    async def main(address: str) -> None:
        with pytest.raises(KeyError):
            async with Producer("G_broken", namesrv=address, timeout=60, send_timeout=60) as producer:
                future = await producer.send_soon(message())
                raise KeyError
        assert future.cancelled()

    with silent_broker() as address:
        run(main(address))


def test_a_loop_that_ends_closes_its_clients(run: Run, rmq_cluster_session: Cluster) -> None:
    futures = []

    async def main() -> None:
        producer = await Producer("G_left", namesrv=rmq_cluster_session.namesrv).open()
        futures.extend([await producer.send_soon(message(number)) for number in range(20)])

    run(main())
    assert {future.result().status for future in futures} == {SendStatus.SEND_OK}


def test_a_task_that_is_cancelled_in_its_block_closes_its_client(
    run: Run, rmq_cluster_session: Cluster
) -> None:
    async def work(ready: asyncio.Event) -> None:
        async with Producer("G_left", namesrv=rmq_cluster_session.namesrv) as producer:
            await producer.send(message())
            ready.set()
            await asyncio.sleep(3600)

    async def main() -> None:
        ready = asyncio.Event()
        task = asyncio.create_task(work(ready))
        await ready.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        # The next client gets a run of its own.
        async with Producer("G_left", namesrv=rmq_cluster_session.namesrv) as producer:
            await producer.send(message())
        asyncio.create_task(work(asyncio.Event()))  # noqa: RUF006  asyncio.run cancels it

    run(main())


def test_loops_one_after_the_other_and_in_two_threads(run: Run, rmq_cluster_session: Cluster) -> None:
    ids: set[str] = set()

    async def main() -> None:
        async with Producer("G_loops", namesrv=rmq_cluster_session.namesrv) as producer:
            for number in range(20):
                ids.add((await producer.send(message(number))).msg_id)

    def twice() -> None:
        run(main())
        run(main())

    threads = [threading.Thread(target=twice) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 80


def test_a_second_loop_of_a_thread_waits_for_the_end_of_the_first(rmq_cluster_session: Cluster) -> None:
    namesrv = rmq_cluster_session.namesrv
    with asyncio.Runner() as first, asyncio.Runner() as second:
        producer = Producer("G_first", namesrv=namesrv)
        first.run(producer.open())
        with pytest.raises(InvalidRequest, match="another event loop with open clients"):
            second.run(Producer("G_second", namesrv=namesrv).open())
        first.run(producer.close())
        other = Producer("G_second", namesrv=namesrv)
        second.run(other.open())
        assert second.run(other.send(message())).status is SendStatus.SEND_OK


def test_a_broker_that_is_started_again_gets_the_next_sends(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        with embedded_in_thread(store=tmp_path / "store") as first:
            port, names = (
                int(address.rpartition(":")[2]) for address in (first.broker_address, first.namesrv)
            )
            producer = await Producer("G_again", namesrv=first.namesrv, retries=0).open()
            await producer.send(message())
        with pytest.raises(Exception, match=r"connect|lost"):
            await producer.send(message())
        with embedded_in_thread(store=tmp_path / "store", port=port, namesrv_port=names):
            results = await asyncio.gather(*(producer.send(message(number)) for number in range(10)))
            assert {result.status for result in results} == {SendStatus.SEND_OK}
            await producer.close()

    run(main())
