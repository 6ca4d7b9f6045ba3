"""A sync fails once, as Linux reports it: what follows must not be acknowledged.

The simulated disk drops the pages that the failed sync should have written; later syncs succeed without them.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.broker.store import AppendResult, MessageStore, PutStatus, open_store
from rmqcli.broker.store.flush import sync_files
from rmqcli.broker.store.segment_list import SegmentList
from rmqcli.broker.testing.disk import SimulatedDisk
from tests.broker.store.support import HOST, START_MS, Clock, loaded, message, numbers, small_config

ROOT = Path("/store")
CUTS = 6
SENDERS = 4
MESSAGES = 40


class Failing:
    """Threads whose calls overlap; sync number `turn` fails, counting those of flushes, or those that create files."""

    def __init__(self, turn: int, *, of_flushes: bool) -> None:
        self._left = turn
        self._of_flushes = of_flushes
        self._is_flush = False
        self.failed = trio.Event()

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        await trio.sleep(0.002)
        self._is_flush = sync_files in (function, *arguments[:1])
        try:
            return function(*arguments)
        finally:
            self._is_flush = False
            await trio.sleep(0.001)

    def on_call(self, name: str) -> None:
        if name != "sync_file" or self._is_flush is not self._of_flushes:
            return
        self._left -= 1
        if self._left == 0:
            self.failed.set()
            raise OSError(errno.EIO, "Input/output error")


class Senders:
    """Tasks that append to one queue and note what was on the disk by the word of the store."""

    def __init__(self, store: MessageStore, *, sync: bool) -> None:
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()
        self._store = store
        self._sync = sync

    async def send(self, first: int) -> None:
        for number in range(first, first + MESSAGES):
            sent = message(number, topic="T", queue_id=0, size=900)
            result = await self._store.when_ready(self._store.writer.append, sent)
            if result.status is not PutStatus.PUT_OK:
                self.refused.add(number)
            elif await self._is_flushed(number, result.physical_offset + result.size):
                self.acknowledged.add(number)
            await trio.sleep(0.03 * (number % 5))

    async def _is_flushed(self, number: int, end: int) -> bool:
        if number % 3 == 0:
            return await self._store.make_durable()
        if self._sync:
            return await self._store.wait_flushed(end)
        await trio.sleep(0.7)
        return self._store.flushed_offset >= end


def survives(disk: SimulatedDisk, numbers_kept: set[int]) -> None:
    """Cuts the power again and again: the messages are there each time."""
    for _ in range(CUTS):
        with loaded(small_config(ROOT), Clock(START_MS + 10_000_000), disk.power_cut()) as store:
            assert numbers_kept <= set(numbers(store, "T", 0))


@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("turn", range(1, 25))
async def test_a_failed_flush_is_the_last(
    turn: int, flush_disk_type: str, autojump_clock: trio.testing.MockClock
) -> None:
    failing, disk = Failing(turn, of_flushes=True), SimulatedDisk(turn)
    config = small_config(ROOT, flush_disk_type=flush_disk_type)
    async with open_store(
        config, now_ms=Clock(step=3), store_host=HOST, in_thread=failing.in_thread, disk=disk
    ) as store:
        disk.on_call = failing.on_call
        senders = Senders(store, sync=config.sync_flush)
        async with trio.open_nursery() as nursery:
            for sender in range(SENDERS):
                nursery.start_soon(senders.send, sender * MESSAGES)
            await failing.failed.wait()
            await trio.sleep(0.01)
            before = store.flushed_offset
        await trio.sleep(70)
        assert store.flushed_offset == before
        assert senders.refused
        assert not store.stats.writable
        assert store.writer.append(message(999)).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert not await store.make_durable()
        assert senders.acknowledged <= set(numbers(store, "T", 0))
    assert disk.state(config.abort_file) is not None
    survives(disk, senders.acknowledged)


@pytest.mark.parametrize("turn", range(1, 9))
async def test_a_file_whose_first_sync_failed_is_created_again(
    turn: int, autojump_clock: trio.testing.MockClock
) -> None:
    failing, disk = Failing(turn, of_flushes=False), SimulatedDisk(turn)
    config = small_config(ROOT, flush_disk_type="SYNC_FLUSH")
    async with open_store(
        config, now_ms=Clock(step=3), store_host=HOST, in_thread=failing.in_thread, disk=disk
    ) as store:
        disk.on_call = failing.on_call
        senders = Senders(store, sync=True)
        for sender in range(SENDERS):
            await senders.send(sender * MESSAGES)
        assert failing.failed.is_set()
        assert len(senders.refused) <= 1
        assert len(senders.acknowledged) >= SENDERS * MESSAGES - 1
        survives(disk, senders.acknowledged)


@pytest.mark.parametrize("call", ["sync_file", "sync_folder"])
def test_a_file_that_could_not_be_synced_is_not_left_behind(call: str) -> None:
    def refuse(name: str) -> None:
        if name == call:
            raise OSError(errno.EIO, "Input/output error")

    disk = SimulatedDisk()
    segments = SegmentList(disk, ROOT / "commitlog", 4096, "mappedFileSizeCommitLog")
    disk.on_call = refuse
    with pytest.raises(OSError, match="Input/output"):
        segments.build(0)
    assert disk.list(segments.folder) == []


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
async def test_a_flush_without_a_free_descriptor_is_tried_again(
    code: int, autojump_clock: trio.testing.MockClock
) -> None:
    left = 7

    def refuse(name: str) -> None:
        nonlocal left
        if name == "sync_file" and left:
            left -= 1
            raise OSError(code, "Too many open files")

    disk = SimulatedDisk()
    config = small_config(ROOT, flush_disk_type="SYNC_FLUSH")
    failing = Failing(0, of_flushes=True)
    async with open_store(
        config, now_ms=Clock(step=3), store_host=HOST, in_thread=failing.in_thread, disk=disk
    ) as store:
        result = store.writer.append(message(1))
        disk.on_call = refuse
        assert await store.wait_flushed(result.physical_offset + result.size)
        assert not left
        left = 7
        assert store.writer.append(message(2)).status is PutStatus.PUT_OK
        assert await store.make_durable()
        left = 1 << 30
        result = store.writer.append(message(3))
        assert not await store.wait_flushed(result.physical_offset + result.size)
        left = 0
        assert await store.wait_flushed(result.physical_offset + result.size)
        assert store.stats.writable
    assert disk.state(config.abort_file) is None


@pytest.mark.parametrize("killed", [False, True])
async def test_the_next_start_writes_again_what_the_disk_does_not_have(
    killed: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Memory holds what a failed flush lost to the disk: a record behind it is acknowledged once both are there."""
    config = small_config(ROOT, flush_disk_type="SYNC_FLUSH")
    disk, clock = SimulatedDisk(), Clock(START_MS, step=3)
    failing = Failing(2, of_flushes=True)
    disk.on_call = failing.on_call
    async with open_store(
        config, now_ms=clock, store_host=HOST, in_thread=failing.in_thread, disk=disk
    ) as store:
        assert await store.wait_flushed(_end(store.writer.append(message(0, size=5000))))
        assert not await store.wait_flushed(_end(store.writer.append(message(1, size=5000))))
        left = disk.killed()
    disk = left if killed else disk
    disk.on_call = None
    async with open_store(
        config, now_ms=clock, store_host=HOST, in_thread=failing.in_thread, disk=disk
    ) as store:
        assert await store.wait_flushed(_end(store.writer.append(message(2, size=5000))))
        cuts = [disk.power_cut() for _ in range(CUTS)]
    for cut in cuts:
        with loaded(config, Clock(START_MS + 10_000), cut) as store:
            assert numbers(store, "TopicA", 0) == [0, 1, 2]


def _end(result: AppendResult) -> int:
    return result.physical_offset + result.size
