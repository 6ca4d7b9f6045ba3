"""A call of a client is cancelled at every step of it: nothing happens twice, and the client goes on.

Consumers with listeners are in tests/client/push/test_cancellation.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from rmqcli.client import Producer, PullConsumer, SendResult
from rmqcli.codec.message import Message
from tests.client.tasks import CancelAt, tasks
from tests.client.watched_cluster import NAMESRV, WatchedCluster, now_ms, open_cluster
from tests.scheduling import seed_scheduler

TOPIC, GROUP = "T", "G"
STORED = [b"%d" % number for number in range(5)]

Call = Callable[[], Awaitable[Any]]


async def cancelled_at(step: int, call: Call) -> tuple[bool, Any]:
    """Runs a call, cancelled at a step of it or of the tasks beside it; True and its result if it ended before."""
    with trio.CancelScope() as scope:
        instrument = CancelAt(scope, step, trio.lowlevel.current_task())
        trio.lowlevel.add_instrument(instrument)
        try:
            return True, await call()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return False, None


async def at_every_step(cluster: WatchedCluster, application: Callable[[int], Awaitable[bool]]) -> int:
    """Runs an application with each step until it returns True: its call ended before. Returns the steps."""
    step, ended = 0, False

    async def run(number: int) -> None:
        nonlocal ended
        ended = await application(number)

    while not ended:
        step += 1
        await trio.testing.wait_all_tasks_blocked()
        before, sessions = tasks(), cluster.sessions()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, step)
        await trio.testing.wait_all_tasks_blocked()
        assert (tasks(), cluster.sessions()) == (before, sessions), f"step {step} leaves something behind"
    return step


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    seed_scheduler(monkeypatch, 7)


def options(cluster: WatchedCluster) -> dict[str, Any]:
    return {"namesrv": NAMESRV, "open_stream": cluster.open_stream, "now_ms": now_ms}


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("count", [1, 3])
async def test_send(flush: str, count: int, autojump_clock: trio.abc.Clock) -> None:
    async with open_cluster({TOPIC: 1}, flush_disk_type=flush) as cluster:

        async def application(step: int) -> bool:
            messages = [Message.of(TOPIC, f"{step}/{number}") for number in range(count)]

            async def call() -> SendResult:
                return await (producer.send(messages[0]) if count == 1 else producer.send_batch(messages))

            async with Producer("P", **options(cluster)) as producer:
                ended, result = await cancelled_at(step, call)
                await producer.send(Message.of(TOPIC, f"{step}/after"))
            bodies = cluster.bodies(TOPIC)
            times = {bodies.count(message.body) for message in messages}
            assert times == {1} if ended else times in ({0}, {1}), f"step {step}"
            assert bodies.count(b"%d/after" % step) == 1
            assert not ended or result.queue_offset == bodies.index(messages[0].body)
            return ended

        assert await at_every_step(cluster, application) > 10


@pytest.mark.parametrize("suspend", [0.0, 5.0])
async def test_pull(suspend: float, autojump_clock: trio.abc.Clock) -> None:
    """Of messages that are there, and by a long poll before they are."""
    async with open_cluster({TOPIC: 1}) as cluster:
        queue = cluster.queue(TOPIC)

        async def application(step: int) -> bool:
            offset = len(cluster.bodies(TOPIC))
            if not suspend:
                cluster.put_many(queue, STORED)

            async def call() -> list[bytes]:
                async with trio.open_nursery() as nursery:
                    if suspend:
                        nursery.start_soon(arrive)
                    found = await consumer.pull(queue, offset, suspend=suspend)
                    return [message.body for message in found.messages]

            async def arrive() -> None:
                await trio.sleep(1)
                cluster.put_many(queue, STORED)

            async with PullConsumer(GROUP, **options(cluster)) as consumer:
                ended, bodies = await cancelled_at(step, call)
                assert not ended or bodies == STORED
                if not ended and len(cluster.bodies(TOPIC)) == offset:
                    cluster.put_many(queue, STORED)
                again = await consumer.pull(queue, offset)
                assert [message.body for message in again.messages] == STORED, f"step {step}"
            return ended

        assert await at_every_step(cluster, application) > 10


async def test_commit(autojump_clock: trio.abc.Clock) -> None:
    async with open_cluster({TOPIC: 1}) as cluster:
        queue = cluster.queue(TOPIC)

        async def application(step: int) -> bool:
            before = cluster.committed(GROUP, TOPIC).get(0, 0)
            async with PullConsumer(GROUP, **options(cluster)) as consumer:
                ended, _ = await cancelled_at(step, lambda: consumer.commit(queue, before + 1))
                stored = cluster.committed(GROUP, TOPIC).get(0, 0)
                assert stored == before + 1 if ended else stored in (before, before + 1), f"step {step}"
                await consumer.commit(queue, before + 2)
            assert cluster.committed(GROUP, TOPIC) == {0: before + 2}, f"step {step}"
            return ended

        assert await at_every_step(cluster, application) > 5
