"""Times of flushes, and sends that wait for one. The clock is virtual, the worker thread a recorder."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.broker.disk import REAL
from rmqcli.broker.store import PutStatus, StoreLocked, open_store
from rmqcli.broker.store.checkpoint import Checkpoint
from rmqcli.broker.store.flush import FLUSHED_AT_ONCE
from rmqcli.broker.store.segment import Segment
from tests.broker.store.support import HOST, LOG_SIZE, START_MS, Clock, loaded, message, numbers, small_config
from tests.broker.store.threads import Threads, opened


def saved_checkpoint(root: Path) -> Checkpoint:
    checkpoint = Checkpoint(REAL, root / "checkpoint")
    checkpoint.load(START_MS)
    return checkpoint


async def test_async_flush_waits_for_four_pages_or_ten_seconds(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    threads = Threads()
    async with opened(tmp_path, threads) as store:
        store.writer.append(message(1))
        await trio.sleep(9.4)
        assert threads.flushed == []
        await trio.sleep(1)
        assert threads.flushed == [(10.0, ["commitlog"])]
        for number in range(4):
            store.writer.append(message(number, size=3800))
        await trio.sleep(0.5)
        assert threads.flushed[1] == (10.5, ["commitlog"])
        assert store.flushed_offset == store.commit_log_max_offset
        assert await store.wait_flushed(1 << 50)


async def test_queues_and_checkpoint_each_minute(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    threads = Threads()
    async with opened(tmp_path, threads, mapped_file_size_consume_queue=20 * 1000) as store:
        for number in range(500):
            store.writer.append(message(number, topic="Two"))
        store.writer.append(message(501, topic="One"))
        await trio.sleep(1.1)
        assert [names for _, names in threads.flushed if "0" in names] == [["0"]]
        assert saved_checkpoint(tmp_path).logics == 0
        await trio.sleep(59)
        assert threads.flushed[-1] == (60.0, ["0"])
        saved = saved_checkpoint(tmp_path)
        assert saved.physic == saved.logics == store.stats.last_store_timestamp


async def test_one_flush_serves_all_who_wait(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    threads = Threads(seconds=0.1)
    done: list[float] = []
    async with opened(tmp_path, threads, flush_disk_type="SYNC_FLUSH") as store:
        start = trio.current_time()

        async def send(number: int, after: float) -> None:
            await trio.sleep(after)
            result = store.writer.append(message(number))
            assert await store.wait_flushed(result.physical_offset + result.size)
            done.append(round(trio.current_time() - start, 2))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(send, number, 0.0)
                nursery.start_soon(send, number, 0.05)
        assert done == [0.1] * 20 + [0.2] * 20
        assert [names for _, names in threads.flushed] == [["commitlog"]] * 2
        assert await store.wait_flushed(store.commit_log_max_offset)


async def test_a_slow_disk_times_out(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    threads = Threads()
    async with opened(tmp_path, threads, flush_disk_type="SYNC_FLUSH", sync_flush_timeout=200) as store:
        threads.seconds = 1.0
        store.writer.append(message(1))
        start = trio.current_time()
        assert not await store.wait_flushed(store.commit_log_max_offset)
        assert round(trio.current_time() - start, 3) == 0.2


async def test_a_failing_disk_closes_the_store_for_writes(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    threads = Threads()
    async with opened(tmp_path, threads, flush_disk_type="SYNC_FLUSH") as store:
        store.writer.append(message(1))
        threads.failing = True
        assert not await store.wait_flushed(store.commit_log_max_offset)
        assert store.writer.append(message(2)).status is PutStatus.SERVICE_NOT_AVAILABLE
        assert not store.stats.writable
    assert (tmp_path / "abort").exists()


async def test_a_clean_stop_flushes_all(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    threads = Threads()
    async with opened(tmp_path, threads) as store:
        assert (tmp_path / "abort").exists()
        for number in range(10):
            store.writer.append(message(number))
        last = store.stats.last_store_timestamp
        await trio.sleep(1)
        assert len(list((tmp_path / "commitlog").iterdir())) == 2
    assert [names for _, names in threads.flushed][-3:] == [["commitlog"], ["index"], ["0"]]
    assert not (tmp_path / "abort").exists()
    assert (tmp_path / "lock").read_bytes() == b"lock"
    assert len(list((tmp_path / "commitlog").iterdir())) == 1
    checkpoint = saved_checkpoint(tmp_path)
    assert (checkpoint.physic, checkpoint.logics) == (last, last)
    assert (tmp_path / "checkpoint").stat().st_size == 4096
    with loaded(small_config(tmp_path)) as store:
        assert numbers(store, "TopicA", 0) == list(range(10))
        assert store.recovery.records == 10


async def test_the_next_file_is_created_ahead(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with opened(tmp_path, Threads()) as store:
        for number in range(120):
            store.writer.append(message(number, size=400))
            if number % 20 == 0:
                await trio.sleep(2)
                names = [int(path.name) for path in sorted((tmp_path / "commitlog").iterdir())]
                assert names[-1] == (store.commit_log_max_offset // LOG_SIZE + 1) * LOG_SIZE
        assert numbers(store, "TopicA", 0) == list(range(120))


async def test_the_first_page_of_a_queue_is_touched_in_a_worker(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the queue gets its first entry; the pages of the log are allocated by a service of their own."""
    touched: list[tuple[str, int, bytes]] = []

    def note(segment: Segment, position: int, length: int) -> bool:
        touched.append((segment.path.parent.name, position, bytes(segment.view[:20])))
        return True

    monkeypatch.setattr(Segment, "populate_pages", note)
    async with opened(tmp_path, Threads(), flush_disk_type="SYNC_FLUSH") as store:
        for number in range(3):
            await store.when_ready(store.writer.append, message(number, queue_id=number % 2))
    assert touched == [("0", 0, bytes(20)), ("1", 0, bytes(20))]


async def test_full_index_files_are_flushed_and_noted(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    threads = Threads()
    async with opened(tmp_path, threads) as store:
        for number in range(300):
            store.writer.append(message(number))
        store.query("TopicA", "all", 1, 0, 1)
        ends = [file.end_timestamp for file in store._index.files] if store._index else []
        assert len(ends) > 2
        await trio.sleep(61)
        assert saved_checkpoint(tmp_path).index == ends[-2]


async def test_one_store_for_a_folder(tmp_path: Path) -> None:
    async with opened(tmp_path, Threads()):
        with pytest.raises(StoreLocked, match="another one"):
            async with opened(tmp_path, Threads()):
                pass
    async with opened(tmp_path, Threads()) as store:
        assert store.stats.writable


async def test_what_the_block_raises_comes_out_bare(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with opened(tmp_path, Threads()):
            raise KeyError("mine")
    assert not (tmp_path / "abort").exists()


async def test_real_threads_and_views_that_outlive_the_store(tmp_path: Path) -> None:
    config = small_config(tmp_path, flush_disk_type="SYNC_FLUSH")
    async with open_store(config, now_ms=Clock(step=1), store_host=HOST) as store:
        result = store.writer.append(message(7))
        assert await store.wait_flushed(result.physical_offset + result.size)
        view = store.reader.get("TopicA", 0, 0, 1).views[0]
    assert bytes(view)[88:90] == b"7:"


async def test_pages_of_log_and_index_leave_the_process_each_minute(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    sizes = {"mapped_file_size_commit_log": 1 << 20, "max_hash_slot_num": 20_000, "max_index_num": 1000}
    rng = random.Random(0)
    async with opened(tmp_path, Threads(), **sizes) as store:
        for number in range(200):  # with keys whose slots are in all pages
            store.writer.append(message(number, size=1000, KEYS=f"{rng.random()} all"))
        await trio.sleep(58)
        assert min(in_memory(tmp_path / folder) for folder in ("commitlog", "index")) > 80
        await trio.sleep(3)
        assert max(in_memory(tmp_path / folder) for folder in ("commitlog", "index")) < 20
        assert numbers(store, "TopicA", 0) == list(range(200))


def in_memory(folder: Path) -> int:
    """Kilobytes of the mappings of a folder's files that are in the memory of this process."""
    found, is_below = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(maxsplit=1)[0]:
            is_below = f"{folder}/" in line
        elif is_below and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


async def test_many_queues_are_flushed_some_at_a_time(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Each file once, and others go on between two syncs."""
    threads = Threads()
    count, rounds = 3 * FLUSHED_AT_ONCE + 1, 0

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    async with opened(tmp_path, threads, mapped_file_size_commit_log=1 << 20) as store:
        for number in range(count):
            store.writer.append(message(number, queue_id=number))
        before = len(threads.flushed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_rounds)
            await store._flusher.flush_all_queues()
            nursery.cancel_scope.cancel()
        named = [[name for name in names if name.isdigit()] for _, names in threads.flushed[before:]]
        assert rounds >= 4
        assert sorted(name for names in named for name in names) == sorted(map(str, range(count)))
        assert max(map(len, named)) == FLUSHED_AT_ONCE
        assert not store._queues.touched


async def test_the_page_that_is_written_next_stays_in_memory(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[tuple[int, int]] = []
    monkeypatch.setattr(Segment, "release_pages", lambda _, start, length: released.append((start, length)))
    async with opened(tmp_path, Threads(), mapped_file_size_consume_queue=20 * 1000) as store:
        for number in range(500):
            store.writer.append(message(number))
        released.clear()
        await store._flusher.flush_all_queues()
        assert released == [(0, 500 * 20)]
