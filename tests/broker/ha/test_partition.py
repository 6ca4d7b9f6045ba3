"""A network between master and slave that cuts, swallows or delays at every byte of a short session, both ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.mirror import open_mirror
from rmqcli.broker.net.network import Listener, Network
from rmqcli.broker.testing.in_memory import HOST, MemoryCluster
from rmqcli.client import Admin
from tests.broker.ha.support import HA_PORT, send
from tests.broker.store.support import inline, queue_bytes

REPORTS = 3 * 8
"""Bytes of the reports that a slave sends in a short session."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one connection: only so many bytes pass; then it ends, or is `silent` for ever."""

    received: int = 1 << 40
    sent: int = 1 << 40
    silent: bool = False
    byte_seconds: float = 0.0
    """Each byte comes alone, after this time."""


class Faulty:
    """A network on which connection number n to `port` has the fault `plan(n)`."""

    def __init__(self, network: Network, port: int, plan: Callable[[int], Fault]) -> None:
        self._network = network
        self._port = port
        self._plan = plan
        self.connections = 0

    def listen(self, host: str, port: int, backlog: int = 0) -> Listener:
        return self._network.listen(host, port, backlog)

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        stream = await self._network.open_stream(host, port)
        if port != self._port:
            return stream
        self.connections += 1
        return _FaultyStream(stream, self._plan(self.connections - 1))


class _FaultyStream(trio.abc.Stream):
    def __init__(self, stream: trio.abc.Stream, fault: Fault) -> None:
        self._stream = stream
        self._fault = fault
        self._to_receive, self._to_send = fault.received, fault.sent

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if not self._to_receive:
            await self._ended()
            return b""
        most = min(max_bytes or 65536, self._to_receive)
        if self._fault.byte_seconds:
            await trio.sleep(self._fault.byte_seconds)
            most = 1
        data = bytes(await self._stream.receive_some(most))
        self._to_receive -= len(data)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        passed = min(len(data), self._to_send)
        self._to_send -= passed
        await self._stream.send_all(data[:passed])
        if passed < len(data) and not self._fault.silent:
            await self._ended()

    async def _ended(self) -> None:
        if self._fault.silent:
            await trio.sleep_forever()
        await self._stream.aclose()

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


def cut_after(number: int) -> Fault:
    return Fault(received=number)


def silent_after(number: int) -> Fault:
    return Fault(received=number, silent=True)


def report_cut_after(number: int) -> Fault:
    return Fault(sent=number) if number < REPORTS else Fault()


def reports_swallowed_after(number: int) -> Fault:
    return Fault(sent=number, silent=True) if number < REPORTS else Fault()


def byte_by_byte(_number: int) -> Fault:
    return Fault(byte_seconds=0.5)


PLANS = [cut_after, silent_after, report_cut_after, reports_swallowed_after, byte_by_byte]


def logs(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir())).rstrip(b"\0")


@pytest.mark.parametrize("plan", PLANS)
async def test_a_mirror(autojump_clock: Any, tmp_path: Path, plan: Callable[[int], Fault]) -> None:
    async with broker.embedded_in_memory(store=tmp_path / "a", mapped_file_size_commit_log=16384) as cluster:
        await send(cluster, 1, 20)
        network = Faulty(cluster.surroundings.network, HA_PORT, plan)
        async with open_mirror(
            f"{HOST}:{HA_PORT - 1}", tmp_path / "b", now_ms=cluster.now_ms, network=network, in_thread=inline
        ) as running:
            await running.caught_up((await running.log_range()).end)
            if plan in (cut_after, silent_after):
                assert network.connections > 150  # one for each byte until the first record is whole
            if plan in (report_cut_after, reports_swallowed_after):
                await send(cluster, 1, 300)  # a report that did not arrive: the log is asked for again
                await running.slave.reached((await running.log_range()).end)
        assert logs(tmp_path / "a") == logs(tmp_path / "b")
        assert queue_bytes(tmp_path / "a") == queue_bytes(tmp_path / "b")


@pytest.mark.parametrize("plan", PLANS)
async def test_a_slave(autojump_clock: Any, plan: Callable[[int], Fault]) -> None:
    settings: dict[str, Any] = {"ha_send_heartbeat_interval": 500, "ha_housekeeping_interval": 2000}
    async with broker.embedded_in_memory(**settings) as cluster:
        network = Faulty(cluster.surroundings.network, HA_PORT, plan)
        around = replace(cluster.surroundings, network=cast(Any, network))
        other: MemoryCluster = replace(cluster, surroundings=around)
        await send(cluster, 1, 20)
        async with (
            other.broker(
                broker_name="broker-a", broker_role="SLAVE", broker_id=1, listen_port=10971, **settings
            ) as slave,
            Admin(**cluster.client()) as admin,
        ):
            seats = {"m": cluster.broker_address, "s": slave.broker_address}
            for _ in range(3000):
                await trio.sleep(5)
                states = await admin.replication.states(seats)
                ends = {name: state.master_commit_log_max_offset for name, state in states.items()}
                if ends["m"] == ends["s"]:
                    break
            assert ends["m"] == ends["s"] > 100
            assert network.connections == 1 or plan is not byte_by_byte
