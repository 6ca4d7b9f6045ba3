"""A full disk: sends are refused, reads go on, sends go on when there is room; no page is written without one."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from rmqcli.broker.disk import PAGE, REAL
from rmqcli.broker.store import MessageStore, PutStatus, open_store
from rmqcli.broker.store.segment import MOST_RESERVED, Segment
from rmqcli.broker.testing.disk import SimulatedDisk
from tests.broker.store.support import (
    HOST,
    START_MS,
    Clock,
    append_run,
    inline,
    loaded,
    message,
    numbers,
    small_config,
)

ROOT = Path("/store")
CAPACITY = 1 << 30
LARGE: dict[str, Any] = {
    "mapped_file_size_commit_log": 16 << 20,
    "mapped_file_size_consume_queue": 20 * 4096,
    "max_hash_slot_num": 5000,
    "max_index_num": 100_000,
}


def limited() -> SimulatedDisk:
    return SimulatedDisk(loses_power=False, capacity=CAPACITY)


def fill(disk: SimulatedDisk) -> None:
    """Another program takes what is left."""
    disk.used += disk.usage(ROOT).free


@asynccontextmanager
async def opened(disk: SimulatedDisk, **settings: Any) -> AsyncIterator[MessageStore]:
    config = small_config(ROOT, **(LARGE | settings))
    async with open_store(
        config, now_ms=Clock(step=3), store_host=HOST, in_thread=inline, disk=disk
    ) as store:
        yield store


async def send(store: MessageStore, number: int, **settings: Any) -> PutStatus:
    return (await store.when_ready(store.writer.append, message(number, **settings))).status


async def test_a_full_disk_refuses_and_serves(autojump_clock: trio.testing.MockClock) -> None:
    disk = limited()
    async with opened(disk) as store:
        kept = [n for n in range(50) if await send(store, n, queue_id=0) is PutStatus.PUT_OK]
        assert len(kept) == 50
        fill(disk)
        kept += [n for n in range(50, 3000) if await send(store, n, size=1000) is PutStatus.PUT_OK]
        assert len(kept) < 2000, "the log reserves a megabyte"
        assert await send(store, 1, queue_id=7) is not PutStatus.PUT_OK, "a new queue"
        assert numbers(store, "TopicA", 0) == kept
        assert len(store.query("TopicA", f"k{kept[-1]}", 9, 0, 1 << 50).views) == 1
        assert disk.unreserved_pages() == {}
        disk.used = 0
        await trio.sleep(90)
        assert await send(store, 3000) is PutStatus.PUT_OK
        assert await send(store, 3001, queue_id=7) is PutStatus.PUT_OK
        assert not store.stats.damaged
    with loaded(small_config(ROOT, **LARGE), Clock(START_MS + 10_000_000), disk) as store:
        assert numbers(store, "TopicA", 0) == [*kept, 3000]


async def test_as_many_queues_as_there_is_room_for(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.store.retention.LEAST_FREE", 0)
    disk = limited()
    async with opened(disk) as store:
        assert await send(store, 0) is PutStatus.PUT_OK
        disk.used += disk.usage(ROOT).free - 200 * PAGE
        results = [await send(store, number, queue_id=number) for number in range(1, 400)]
        assert 0 < results.count(PutStatus.PUT_OK) <= 200
        assert disk.unreserved_pages() == {}


@pytest.mark.parametrize("extensions", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_every_page_is_reserved_before_it_is_written(
    autojump_clock: trio.testing.MockClock, seed: int, extensions: bool
) -> None:
    """Room comes and goes; batches, runs, delays, small files that roll."""
    rng, disk = random.Random(seed), limited()
    settings = {
        "mapped_file_size_commit_log": rng.choice([40_000, 1 << 20]),
        "mapped_file_size_consume_queue": 20 * rng.choice([16, 300, 2000]),
        "enable_consume_queue_ext": extensions,
        "mapped_file_size_consume_queue_ext": 16 * 1024,
    }
    stored = 0
    async with opened(disk, **settings) as store:
        for number in range(600):
            kind = rng.randrange(20)
            if kind == 0:
                disk.used = 0
                await store.retention.run_once()
            elif kind == 1:
                fill(disk)
                disk.used -= PAGE * rng.randrange(100)
            elif kind == 2:
                await trio.sleep(rng.choice([0.6, 3]))
            elif kind == 3:
                run = [message(number, queue_id=n % 3) for n in range(rng.randrange(40))]
                stored += append_run(store, run)
            sized = rng.choice((10, 300, 3000))
            stored += await send(store, number, queue_id=rng.randrange(4), size=sized) is PutStatus.PUT_OK
        assert disk.unreserved_pages() == {}
        assert sum(store.search.max_offset("TopicA", queue_id) for queue_id in range(4)) == stored
        assert not store.stats.damaged
    assert stored > 100


async def test_a_start_on_a_full_disk(autojump_clock: trio.testing.MockClock) -> None:
    """As long as the queues are there."""
    disk = limited()
    async with opened(disk) as store:
        for number in range(300):
            await send(store, number)
        disk = disk.killed()
    fill(disk)
    async with opened(disk) as store:
        assert numbers(store, "TopicA", 0) == list(range(300))
        assert await send(store, 1) is PutStatus.SERVICE_NOT_AVAILABLE
        assert store.stats.disk_full
    assert disk.unreserved_pages() == {}


async def test_what_is_rebuilt_is_reserved(autojump_clock: trio.testing.MockClock) -> None:
    disk = limited()
    async with opened(disk) as store:
        for number in range(1000):
            await send(store, number)
    for folder in ("consumequeue/TopicA/0", "index"):
        for path in disk.list(ROOT / folder):
            disk.unlink(path)
    async with opened(disk) as store:
        assert numbers(store, "TopicA", 0) == list(range(1000))
        assert disk.unreserved_pages() == {}


def test_steps_grow_with_the_file(tmp_path: Path) -> None:
    segment = Segment(REAL, tmp_path / "s", 0, 1 << 30)
    ends = []
    for end in (1, PAGE, PAGE + 1, 10 * PAGE, 9 << 20, 1 << 30):
        segment.reserve(end)
        ends.append(segment.reserved)
    assert ends == [PAGE, PAGE, 3 * PAGE, 20 * PAGE, (9 << 20) + MOST_RESERVED, 1 << 30]
    assert segment.path.stat().st_size == 1 << 30, "no longer"
    segment.destroy()


def test_reserved_blocks_are_on_the_disk_and_empty(tmp_path: Path) -> None:
    segment = Segment(REAL, tmp_path / "s", 0, 1 << 20)
    assert list(segment.data_ranges(0)) == []
    segment.reserve(100_000)
    assert segment.path.stat().st_blocks * 512 >= 100_000 and list(segment.data_ranges(0)) == []
    segment.view[50_000] = 1
    assert [start <= 50_000 < stop < 1 << 20 for start, stop in segment.data_ranges(0)] == [True]
    segment.clear_from(10)
    assert segment.reserved == 0
    segment.destroy()
    segment.reserve(1)  # a file that was removed


def test_a_small_file_system(tmp_path: Path) -> None:
    """Where the kernel lets this user mount one."""
    script = 'mount -t tmpfs -o size=40m none "$0" && exec "$1" -m tests.broker.store.full_tmpfs "$0"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("no mounts in a user namespace")
    done = subprocess.run(
        [*command, script, str(tmp_path), sys.executable], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr
