"""A disk that takes 100 ms for every call delays only the requests that need it.

On the virtual clock a send of a bystander takes as long as it waited for others. Calls that the event loop makes itself would stop
everybody, whatever the clock says: the simulated disk counts them, and there must be none.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import trio
import trio.testing

import broker
from broker.testing.disk import SimulatedDisk
from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.client import Admin, Producer, PullConsumer

CALL_SECONDS = 0.1
BYSTANDER = MessageQueue("Bystander", "broker-a", 0)
BUSY = MessageQueue("Busy", "broker-a", 0)


async def sends(producer: Producer, count: int, pause: float, now: Callable[[], float]) -> list[float]:
    """Seconds that each of some sends took."""
    took = []
    for _ in range(count):
        begun = now()
        await producer.send(Message.of(BYSTANDER.topic, bytes(100)), queue=BYSTANDER)
        took.append(now() - begun)
        await trio.sleep(pause)
    return took


def p99(took: list[float]) -> float:
    return statistics.quantiles(took, n=100)[98]


async def keep_busy(cluster: broker.MemoryCluster, disk: SimulatedDisk) -> None:
    """Creates topics by sending, fills and rolls files, deletes topics, commits offsets, reads and queries cold pages."""
    async with (
        Producer(**cluster.client(), timeout=60, send_timeout=60) as producer,
        PullConsumer("G", **cluster.client(), timeout=60) as consumer,
        Admin(**cluster.client(), timeout=60) as admin,
    ):
        for n in range(1000):
            await producer.send(Message.of(f"Fresh{n}", b"x"))
            for _ in range(20):
                await producer.send(Message.of(BUSY.topic, bytes(3000), keys=f"k{n}"), queue=BUSY)
            disk.forget_pages()
            await trio.sleep(1.1)
            pulled = await consumer.pull(BUSY, n * 10)
            assert pulled.messages
            await consumer.commit(BUSY, n * 10)
            disk.forget_pages()
            await trio.sleep(1.1)
            assert (await admin.messages.query_by_key(BUSY.topic, f"k{n}")).messages
            assert await consumer.search_offset(BUSY, cluster.now_ms()) > 0
            await admin.topics.delete(f"Fresh{n}")


async def test_nobody_waits_for_the_disk_of_another(autojump_clock: trio.testing.MockClock) -> None:
    disk = SimulatedDisk(loses_power=False)
    sizes: Any = {"mapped_file_size_commit_log": 256 * 1024, "mapped_file_size_consume_queue": 600_000}
    async with (
        broker.embedded_in_memory(disk=disk, **sizes) as cluster,
        Producer(**cluster.client()) as bystander,
    ):
        await sends(bystander, 1, 1, trio.current_time)
        quiet = p99(await sends(bystander, 200, 0.05, trio.current_time))
        disk.calls.clear()
        disk.calls_in_loop.clear()
        disk.call_seconds = CALL_SECONDS
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_busy, cluster, disk)
            busy = p99(await sends(bystander, 1200, 0.05, trio.current_time))
            nursery.cancel_scope.cancel()
        assert disk.calls_in_loop == {}
        assert disk.calls["unlink"] and disk.calls["load"] and disk.calls["open"] > 10
        assert disk.calls["replace"] > 10
        assert busy <= 2 * quiet
