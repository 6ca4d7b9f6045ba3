"""Hostile clients of the gRPC front beside one that sends now and then.

Time is work: the clock advances by COST for each step of a task of the server and for each header block, and
stands still otherwise. So the times do not depend on the machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from benchmarks.grpc_attacks import HOSTILE
from benchmarks.grpc_load import sends
from rmqcli.broker.proxy.http2 import STALLED_SECONDS
from rmqcli.broker.testing.in_memory import MemoryCluster
from rmqcli.codec.proxy.frames import END_STREAM, HEADERS, PREFACE, SETTINGS, frame
from rmqcli.codec.proxy.http2 import HeaderReader
from tests.broker.proxy.calls import GRPC_PORT, cluster_with_grpc

COST = 50e-6
PAUSE = 0.004
SAMPLES = 100
GAP = 0.001
"""Seconds between the first bytes of two attackers."""
MOST = 20
"""The 99th percentile of a neighbour may be so many times that of a quiet server. The rule for
sockets is 5 times; on them a call takes one round of the loop, in memory about four, and each may meet a turn
of an attacker."""


class Work(trio.abc.Instrument):
    """Lets the clock advance by the work that is done."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if "tests." not in task.name:
            self.done()

    def done(self) -> None:
        self._clock.jump(COST)


class Neighbour:
    """A client that makes one call after the other."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._calls = sends("Quiet")

    async def late(self, samples: int = SAMPLES) -> float:
        """The 99th percentile of the seconds of some calls."""
        times = []
        for _ in range(samples):
            begun = trio.current_time()
            await self._stream.send_all(next(self._calls))
            data = b""
            while not ends(data):
                data += await self._stream.receive_some(65_536)
            times.append(trio.current_time() - begun)
            await trio.sleep(PAUSE)
        return sorted(times)[samples * 99 // 100]


def ends(data: bytes) -> bool:
    """True if there are the trailers of a call."""
    return any(data[at + 3] == HEADERS and data[at + 4] & END_STREAM for at in _frames(data))


def _frames(data: bytes) -> Iterator[int]:
    at = 0
    while at + 9 <= len(data):
        size = 9 + int.from_bytes(data[at : at + 3], "big")
        if at + size <= len(data):
            yield at
        at += size


async def opened(cluster: MemoryCluster) -> trio.abc.Stream:
    return await cluster.surroundings.network.open_stream("127.0.0.1", GRPC_PORT)


async def attacked(cluster: MemoryCluster, data: bytes, number: int, *, again: bool) -> None:
    """Send all at once, drop what comes; begin anew when the server closes the connection."""
    await trio.sleep(number * GAP)
    for _ in itertools.count() if again else range(1):
        stream = await opened(cluster)
        try:
            await stream.send_all(data)
            while await stream.receive_some(1 << 20):
                pass
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(stream)


@pytest.fixture
def work(mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> Work:
    mock_clock.autojump_threshold = 0
    found = Work(mock_clock)
    read = HeaderReader.read

    def reading(self: HeaderReader, block: bytes) -> dict[str, str]:
        found.done()
        return read(self, block)

    monkeypatch.setattr(HeaderReader, "read", reading)
    return found


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_neighbour_of_hostile_clients_is_served(
    nursery: trio.Nursery, mock_clock: MockClock, work: Work, name: str
) -> None:
    """While they attack, once their time is over, and when they all leave at once."""
    async with cluster_with_grpc() as cluster:
        neighbour = Neighbour(await opened(cluster))
        await neighbour._stream.send_all(PREFACE + frame(SETTINGS, 0, 0))
        await neighbour.late()
        trio.lowlevel.add_instrument(work)
        most = MOST * await neighbour.late()
        frames, connections = HOSTILE[name]
        data = b"".join(frames())
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as attackers:
                began = trio.current_time()
                for number in range(connections):
                    attackers.start_soon(partial(attacked, cluster, data, number, again=False))
                assert await neighbour.late() < most
                await trio.sleep_until(began + STALLED_SECONDS)
                assert await neighbour.late() < most
                for number in range(connections):
                    attackers.start_soon(partial(attacked, cluster, data, number, again=True))
                assert await neighbour.late() < most
                scope.cancel()
        assert await neighbour.late() < most
        trio.lowlevel.remove_instrument(work)
