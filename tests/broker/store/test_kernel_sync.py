"""Syncs without a thread: what the kernel says of them, and what a store does with it."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from rmqcli.broker.disk import REAL, CannotSync
from rmqcli.broker.disk.real import KernelSync, RealDisk, _Calls, open_kernel_sync
from rmqcli.broker.store import MessageStore, PutStatus
from rmqcli.broker.store.flush import FLUSH_FAILED
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.store.store import open_store
from tests.broker.store.support import HOST, Clock, inline, message, small_config

OPEN = Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(open_kernel_sync() is None, reason="the kernel has no such calls")


async def test_files_are_synced_one_after_the_other(tmp_path: Path) -> None:
    sync = KernelSync()
    paths = [tmp_path / name for name in "ab"]
    done = 0
    for number in range(20):
        path = paths[number % 2]
        path.write_bytes(b"x" * number)
        with trio.CancelScope() as scope:
            scope.cancel()
            await sync.sync(path)
            done += 1
        with pytest.raises(BlockingIOError):  # else the next wait for the kernel would block
            os.eventfd_read(sync._eventfd)
        assert os.fstat(descriptor_of(sync)).st_ino == path.stat().st_ino
    assert done == 20, "none was cancelled"
    sync.close()


async def test_a_file_that_was_made_again_is_the_one_that_is_synced(tmp_path: Path) -> None:
    sync, path = KernelSync(), tmp_path / "a"
    for _ in range(2):
        path.write_bytes(b"x")
        await sync.sync(path)
        assert os.fstat(descriptor_of(sync)).st_ino == path.stat().st_ino
        path.unlink()
        (tmp_path / "b").write_bytes(b"y")  # takes the number of the inode
    await sync.sync(path)
    assert sync._open is None
    sync.close()


def descriptor_of(sync: KernelSync) -> int:
    assert sync._open is not None
    return sync._open[1]


async def test_a_file_that_cannot_be_synced_so(tmp_path: Path) -> None:
    sync = KernelSync()
    with pytest.raises(CannotSync, match="/dev/null: Invalid argument"):
        await sync.sync(Path("/dev/null"))
    path = tmp_path / "a"
    path.touch()
    await sync.sync(path)
    sync.close()


def test_another_kind_of_machine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "mips")
    assert open_kernel_sync() is None
    assert REAL.file_sync() is None


def test_a_kernel_that_refuses_keeps_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.broker.disk.real._CALLS", {platform.machine(): _Calls(-1, -1, -1, -1)})
    before = len([*OPEN.iterdir()])
    assert open_kernel_sync() is None
    assert len([*OPEN.iterdir()]) == before


class Sync:
    """Stands for the kernel; the sync after `left` others is refused."""

    def __init__(self, left: int, error: int) -> None:
        self.left, self.error = left, error
        self.is_open = True
        self.synced: list[Path] = []

    async def sync(self, path: Path) -> None:
        await trio.lowlevel.checkpoint()
        self.left -= 1
        if self.left == -1:
            if not self.error:
                raise CannotSync(str(path))
            raise OSError(self.error, os.strerror(self.error), str(path))
        self.synced.append(path)

    def close(self) -> None:
        self.is_open = False


class Disk(RealDisk):
    """The files of this machine, synced by a `Sync`."""

    def __init__(self, sync: Sync) -> None:
        super().__init__()
        self._sync = sync

    def file_sync(self) -> Sync:
        return self._sync


@asynccontextmanager
async def opened(
    root: Path, sync: Sync, in_thread: InThread = trio.to_thread.run_sync
) -> AsyncIterator[MessageStore]:
    config = small_config(root, flush_disk_type="SYNC_FLUSH")
    async with open_store(
        config, now_ms=Clock(), store_host=HOST, in_thread=in_thread, disk=Disk(sync)
    ) as store:
        yield store


async def is_flushed(store: MessageStore, number: int, size: int = 10) -> bool:
    """Stores a message and waits until it is on the disk. The file is new at the first: a thread syncs it."""
    stored = await store.when_ready(store.writer.append, message(number, size=size))
    return await store.wait_flushed(stored.physical_offset + stored.size)


async def test_a_sync_that_fails_is_the_last_one(tmp_path: Path) -> None:
    sync = Sync(1, errno.EIO)
    async with opened(tmp_path, sync) as store:
        assert [await is_flushed(store, number) for number in range(3)] == [True, True, False]
        assert store.flushed_offset < store.commit_log_max_offset
        assert store.writer.append(message(3)).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert not await store.make_durable()
        assert store.config.abort_file.read_bytes().startswith(FLUSH_FAILED)
    assert len(sync.synced) == 1
    assert not sync.is_open


async def test_a_sync_without_a_descriptor_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.store.flush.DESCRIPTOR_PAUSE_SECONDS", 0)
    sync = Sync(0, errno.EMFILE)
    async with opened(tmp_path, sync) as store:
        assert [await is_flushed(store, number) for number in range(2)] == [True, True]
        assert not store.stats.damaged
    assert sync.synced


async def test_none_is_used_where_the_clock_may_be_virtual(tmp_path: Path) -> None:
    sync = Sync(0, errno.EIO)
    async with opened(tmp_path, sync, inline) as store:
        assert [await is_flushed(store, number) for number in range(2)] == [True, True]
    assert sync.synced == []


async def test_a_long_sync_is_left_to_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.broker.store.flush.SHORT_SYNC", 1000)
    sync = Sync(1 << 30, 0)
    synced = []
    async with opened(tmp_path, sync) as store:
        for number, size in enumerate((10, 10, 3000, 10)):
            assert await is_flushed(store, number, size)
            synced.append(len(sync.synced))
    assert synced == [0, 1, 1, 2]


async def test_threads_sync_where_the_kernel_cannot(tmp_path: Path) -> None:
    sync = Sync(1, 0)
    async with opened(tmp_path, sync) as store:
        assert all([await is_flushed(store, number) for number in range(5)])
        assert not store.stats.damaged
        assert not sync.is_open
    assert len(sync.synced) == 1
