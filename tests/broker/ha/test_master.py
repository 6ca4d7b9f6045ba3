"""What a master sends to slaves, and what its senders learn (Java 4.9.8: `HAConnection`, recorded by a proxy)."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli import broker
from rmqcli.broker.testing.in_memory import MemoryCluster
from rmqcli.client import Admin, SendStatus
from tests.broker.ha.support import HandSlave, hand_slave, send

FILE = 16 * 1024


def log_bytes(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))


async def test_a_slave_gets_the_bytes_of_the_files(autojump_clock: Any, tmp_path: Path) -> None:
    async with broker.embedded_in_memory(store=tmp_path, mapped_file_size_commit_log=FILE) as cluster:
        await send(cluster, 100, 500)
        async with hand_slave(cluster) as slave:
            assert await slave.receive(15)
            assert slave.parts == []  # nothing comes before the first report
            await slave.report(1)
            await slave.receive()
            await send(cluster, 20, 500)
            await slave.receive()
            log, end = log_bytes(tmp_path), 1 + len(slave.log)
            assert slave.log == log[1:end]
            assert not any(log[end:])
            for offset, data in slave.parts:
                assert offset // FILE == (offset + len(data) - 1) // FILE
            before = len(slave.parts)
            for _ in range(3):
                assert await slave.receive(6)
                await slave.report(end)
            assert slave.parts[before:] == [(end, b"")] * 3


async def test_the_first_report(autojump_clock: Any, tmp_path: Path) -> None:
    async with broker.embedded_in_memory(store=tmp_path, mapped_file_size_commit_log=FILE) as cluster:
        await send(cluster, 100, 500)
        log = log_bytes(tmp_path)
        for first, begin in ((0, len(log) - 2 * FILE), (77, 77), (FILE, FILE)):
            async with hand_slave(cluster) as slave:
                await slave.report(first)
                await slave.receive()
                assert slave.parts[0].offset == begin
                assert log[begin:].startswith(slave.log)


@pytest.mark.parametrize("seconds", [0, 12])
async def test_a_silent_slave_is_given_up(autojump_clock: Any, seconds: int) -> None:
    async with broker.embedded_in_memory() as cluster, hand_slave(cluster) as slave:
        if seconds:
            await trio.sleep(seconds)
            await slave.report(0)
        assert await slave.receive(19.9)
        assert not await slave.receive(0.2)


async def test_a_slave_ahead_and_a_hostile_one(autojump_clock: Any) -> None:
    async with broker.embedded_in_memory(broker_role="SYNC_MASTER") as cluster:
        for number in (1, 2**62):
            async with hand_slave(cluster) as slave:
                await slave.report(number)
                assert not await slave.receive()
        rng = random.Random(1)
        for _ in range(50):
            async with hand_slave(cluster) as slave:
                await slave.stream.send_all(b"\xff" + rng.randbytes(rng.randrange(7, 60)))
                assert not await slave.receive()
        assert (await send(cluster)).status is SendStatus.SLAVE_NOT_AVAILABLE


async def connected(open_ones: AsyncExitStack, cluster: MemoryCluster) -> HandSlave:
    slave = await open_ones.enter_async_context(hand_slave(cluster))
    await trio.testing.wait_all_tasks_blocked()
    return slave


async def test_connections_that_report_nothing_keep_no_slave_out(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rmqcli.broker.ha.master.MOST_SLAVES", 3)
    caplog.set_level("INFO")
    async with (
        broker.embedded_in_memory(broker_role="SYNC_MASTER") as cluster,
        AsyncExitStack() as open_ones,
        Admin(**cluster.client()) as admin,
    ):
        await send(cluster)
        silent = [await connected(open_ones, cluster) for _ in range(100)]
        for slave in silent[::2]:
            with suppress(trio.BrokenResourceError):
                await slave.stream.send_all(b"\0\0\0")  # less than a report
        assert (await send(cluster)).status is SendStatus.SLAVE_NOT_AVAILABLE
        assert not await silent[0].receive() and await silent[-1].receive()
        slaves = [await connected(open_ones, cluster) for _ in range(3)]
        for slave in slaves:
            await slave.report(0)
            assert await slave.receive() and slave.log
        more = [await connected(open_ones, cluster) for _ in range(100)]
        assert not await silent[-1].receive() and await more[-1].receive()
        assert all([await slave.receive() for slave in slaves])
        await more[-1].report(0)
        assert not await more[-1].receive() and not more[-1].log
        states = await admin.replication.states(await admin.brokers.seats(brokers=["broker-a"]))
        (state,) = states.values()
        assert len(state.ha_connection_info) == 3
    assert "it made room: 64 connections had reported nothing" in caplog.text
    assert "it is not served: 3 others are" in caplog.text


async def sent_with(cluster: MemoryCluster, answers: bool, **properties: str) -> tuple[SendStatus, float]:
    """The status of one send, and how long it took, with a slave that confirms or does not."""
    async with hand_slave(cluster) as slave, trio.open_nursery() as nursery:

        async def follow() -> None:
            end = 1
            await slave.report(0)
            while True:
                assert await slave.receive(0.1)
                log = slave.parts[-1].offset + len(slave.parts[-1].data) if slave.parts else 0
                if answers and log >= end:
                    await slave.report(log)
                    end = log + 1

        nursery.start_soon(follow)
        await trio.sleep(1)
        begun = trio.current_time()
        result = await send(cluster, 1, 50, **properties)
        assert result.queue_offset >= 0
        nursery.cancel_scope.cancel()
    return result.status, trio.current_time() - begun


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_senders_wait_for_a_slave(autojump_clock: Any, flush: str) -> None:
    settings: dict[str, Any] = {"broker_role": "SYNC_MASTER", "flush_disk_type": flush, "slave_timeout": 2000}
    async with broker.embedded_in_memory(**settings) as cluster:
        assert (await send(cluster)).status is SendStatus.SLAVE_NOT_AVAILABLE
        assert (await send(cluster, WAIT="false")).status is SendStatus.SEND_OK
        status, seconds = await sent_with(cluster, answers=True)
        assert status is SendStatus.SEND_OK
        assert seconds < 1
        status, seconds = await sent_with(cluster, answers=False)
        assert status is SendStatus.FLUSH_SLAVE_TIMEOUT
        assert seconds == pytest.approx(2, abs=0.5)
        assert (await sent_with(cluster, answers=False, WAIT="false"))[0] is SendStatus.SEND_OK


async def test_a_slave_too_far_behind_counts_as_none(autojump_clock: Any) -> None:
    settings: dict[str, Any] = {"broker_role": "SYNC_MASTER", "ha_slave_fallbehind_max": 1000}
    async with broker.embedded_in_memory(**settings) as cluster:
        await send(cluster, 20, 100)
        assert (await sent_with(cluster, answers=False))[0] is SendStatus.SLAVE_NOT_AVAILABLE
        assert (await sent_with(cluster, answers=True))[0] is SendStatus.SEND_OK


async def follow(slave: HandSlave, until: int) -> None:
    """Confirms what it gets, up to the offset `until`."""
    end = 0
    await slave.report(0)
    while await slave.receive(0.1):
        log = len(slave.log)
        if end < log <= until:
            await slave.report(log)
            end = log
        elif trio.current_time() % 10 < 0.1:
            await slave.report(end)


@pytest.mark.parametrize(
    ("settings", "statuses"),
    [
        ({}, "SEND_OK SEND_OK SEND_OK"),
        ({"in_sync_replicas": 2}, "SEND_OK SEND_OK SEND_OK"),
        ({"in_sync_replicas": 3}, "FLUSH_SLAVE_TIMEOUT FLUSH_SLAVE_TIMEOUT FLUSH_SLAVE_TIMEOUT"),
        ({"all_ack_in_sync_state_set": True}, "FLUSH_SLAVE_TIMEOUT SEND_OK SEND_OK"),
        ({"in_sync_replicas": 3, "min_in_sync_replicas": 3}, "FLUSH_SLAVE_TIMEOUT SLAVE_NOT_AVAILABLE SEND_OK"),
        ({"all_ack_in_sync_state_set": True, "min_in_sync_replicas": 3}, "FLUSH_SLAVE_TIMEOUT SLAVE_NOT_AVAILABLE SEND_OK"),
    ],
)  # fmt: skip
async def test_how_many_slaves_a_send_waits_for(
    autojump_clock: Any, settings: dict[str, Any], statuses: str
) -> None:
    """Of two slaves one stands still; then it is gone; then both follow, or the only one that there is."""
    found = []
    async with (
        broker.embedded_in_memory(broker_role="SYNC_MASTER", slave_timeout=2000, **settings) as cluster,
        hand_slave(cluster) as quick,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(follow, quick, 1 << 40)
        async with hand_slave(cluster) as still:
            nursery.start_soon(follow, still, 0)
            await trio.sleep(1)
            found.append((await send(cluster)).status.name)
        await trio.sleep(1)
        found.append((await send(cluster)).status.name)
        if "min_in_sync_replicas" in settings:
            await nursery.start(joined, cluster)
            await trio.sleep(1)
        found.append((await send(cluster)).status.name)
        nursery.cancel_scope.cancel()
    assert " ".join(found) == statuses


async def joined(cluster: MemoryCluster, task_status: trio.TaskStatus[HandSlave]) -> None:
    async with hand_slave(cluster) as slave:
        task_status.started(slave)
        await follow(slave, 1 << 40)


async def test_the_slowest_slave_in_sync(autojump_clock: Any) -> None:
    """It is waited for until it is gone, or too far behind; a connection that reports nothing is none."""
    settings: dict[str, Any] = {"all_ack_in_sync_state_set": True, "ha_slave_fallbehind_max": 5000}
    async with (
        broker.embedded_in_memory(broker_role="SYNC_MASTER", slave_timeout=2000, **settings) as cluster,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(joined, cluster)
        async with hand_slave(cluster) as mute, hand_slave(cluster) as slow:
            assert (await send(cluster)).status is SendStatus.SEND_OK
            await slow.report(0)
            await mute.receive(0.5)
            assert (await send(cluster)).status is SendStatus.FLUSH_SLAVE_TIMEOUT

            async def leave() -> None:
                await trio.sleep(1)
                await slow.stream.aclose()

            nursery.start_soon(leave)
            begun = trio.current_time()
            assert (await send(cluster)).status is SendStatus.SEND_OK
            assert 0.9 < trio.current_time() - begun < 2
        async with hand_slave(cluster) as slow:
            await slow.report(0)
            await slow.receive(0.1)
            assert (await send(cluster, 1, 2500)).status is SendStatus.FLUSH_SLAVE_TIMEOUT
            assert (await send(cluster, 1, 2500)).status is SendStatus.SEND_OK
        nursery.cancel_scope.cancel()


async def test_an_async_master_never_waits(autojump_clock: Any) -> None:
    async with broker.embedded_in_memory() as cluster:
        assert (await send(cluster)).status is SendStatus.SEND_OK


async def test_slaves_are_shown(autojump_clock: Any) -> None:
    async with broker.embedded_in_memory() as cluster, hand_slave(cluster) as slave:
        await send(cluster)
        await slave.report(0)
        await slave.receive()
        await slave.report(len(slave.log))
        await slave.receive()
        async with Admin(**cluster.client()) as admin:
            seats = await admin.brokers.seats()
            (state,) = (await admin.replication.states(seats, failures={})).values()
        (one,) = state.ha_connection_info
        assert (one.slave_ack_offset, one.diff, one.in_sync) == (len(slave.log), 0, True)
        assert state.in_sync_slave_nums == 1
