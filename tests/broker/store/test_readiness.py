"""Pages that are not in memory are read in a worker before the event loop reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.broker.disk import PAGE
from rmqcli.broker.errors import NotReady
from rmqcli.broker.store import GetStatus, open_store
from rmqcli.broker.store.readiness import CHUNK, KNOWN_CHUNKS, Readiness
from rmqcli.broker.store.segment import Segment
from rmqcli.broker.testing.disk import SimulatedDisk
from tests.broker.store.support import HOST, LOG_SIZE, START_MS, Clock, inline, loaded, message, small_config

FOLDER = Path("/store")


def strict_readiness() -> Readiness:
    readiness = Readiness(inline)
    readiness.strict = True
    return readiness


def cold_segment(chunks: int) -> tuple[SimulatedDisk, Segment]:
    disk = SimulatedDisk(loses_power=False)
    disk.make_folder(FOLDER)
    segment = Segment(disk, FOLDER / "s", 0, chunks * CHUNK)
    disk.forget_pages()
    return disk, segment


async def test_a_range_of_several_chunks_is_known_when_all_of_them_are() -> None:
    disk, segment = cold_segment(5)
    readiness = strict_readiness()
    span = segment, CHUNK - 1, 2 * CHUNK + 2  # a byte of chunk 0, the chunks 1 and 2, and a byte of chunk 3
    for position in (0, 2 * CHUNK, CHUNK):
        with pytest.raises(NotReady) as missing:
            readiness.require(segment, position, CHUNK)
        await missing.value.ready()
        assert not readiness.knows(*span)
    with pytest.raises(NotReady) as missing:
        readiness.require(*span)
    disk.calls.clear()
    await missing.value.ready()
    assert disk.calls["load"] == 1, "the others are there"
    assert readiness.knows(*span)
    assert readiness.knows(segment, CHUNK - 1, 0)
    assert not readiness.knows(segment, CHUNK - 1, 3 * CHUNK + 2)
    readiness.require(*span)


async def test_a_long_range_is_not_known_at_a_glance() -> None:
    _, segment = cold_segment(KNOWN_CHUNKS + 1)
    readiness = strict_readiness()
    with pytest.raises(NotReady) as missing:
        readiness.require(segment, 0, segment.size)
    await missing.value.ready()
    assert readiness.knows(segment, 0, KNOWN_CHUNKS * CHUNK)
    assert not readiness.knows(segment, 0, segment.size)
    readiness.require(segment, 0, segment.size)


@pytest.mark.parametrize("cold", [0, 1])
async def test_a_batch_of_two_log_files_needs_the_pages_of_both(cold: int) -> None:
    disk = SimulatedDisk(loses_power=False)
    config = small_config(FOLDER, mapped_file_size_consume_queue=20 * 100)
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=disk) as store:
        for number in range(LOG_SIZE // 1000 + 5):
            store.writer.append(message(number, size=1000))
        files = [config.commit_log_folder / f"{start:020}" for start in (0, LOG_SIZE)]
        disk.forget_pages()
        every = (store.reader.get, "TopicA", 0, 0, 32)
        # only the entries, and the records of one file, are brought: the others must be missed
        await store.when_ready(store.search.stored_entries, "TopicA", 0, 0, 32)
        warm = 0 if cold else store.search.max_offset("TopicA", 0) - 1
        assert (await store.when_ready(store.reader.get, "TopicA", 0, warm, 1)).count == 1
        assert [bool(disk.cold_pages(file)) for file in files] == [bool(cold == 0), bool(cold == 1)]
        with pytest.raises(NotReady) as missing:
            store.attempt(*every)
        await missing.value.ready()
        assert [disk.cold_pages(file) for file in files] == [frozenset(), frozenset()]
        result = store.attempt(*every)
        assert result.status is GetStatus.FOUND
        assert len(result.views) == 2, "one for each file"


@pytest.mark.parametrize(("size", "brought"), [(CHUNK // 3, {0, 1, 2, 3}), (CHUNK // 20, {0, 3})])
async def test_pages_between_records_are_brought_where_these_lie_close_together(
    size: int, brought: set[int]
) -> None:
    """Two records of one queue, one of another between them over three chunks."""
    disk = SimulatedDisk(loses_power=False)
    config = small_config(FOLDER, mapped_file_size_commit_log=6 * CHUNK)
    async with open_store(config, now_ms=Clock(), store_host=HOST, in_thread=inline, disk=disk) as store:
        for topic, length in (("TopicA", size), ("TopicB", 3 * CHUNK), ("TopicA", size)):
            store.writer.append(message(topic=topic, size=length))
        disk.forget_pages()
        assert (await store.when_ready(store.reader.get, "TopicA", 0, 0, 32)).count == 2
        cold = disk.cold_pages(config.commit_log_folder / f"{0:020}")
        assert {page * PAGE // CHUNK for page in cold} == {0, 1, 2, 3, 4, 5} - brought


@pytest.mark.parametrize("extended", [False, True])
async def test_queues_that_follow_the_log_read_cold_entries_in_a_worker(extended: bool) -> None:
    clock = Clock()
    disk = SimulatedDisk(now_ms=clock, loses_power=False)
    config = small_config(FOLDER, enable_consume_queue_ext=extended)
    async with open_store(config, now_ms=clock, store_host=HOST, in_thread=inline, disk=disk) as store:
        for number in range(100):
            store.writer.append(message(number, size=300))
        clock.now += 100 * 3_600_000
        disk.set_modified(config.commit_log_folder / f"{0:020}", START_MS)
        disk.forget_pages()
        disk.calls.clear()
        assert await store.retention.delete_expired_files() == 1
        (first, *_) = store.search.stored_entries("TopicA", 0, 0, 1)
        assert first[0] == LOG_SIZE
        files = disk.list(config.consume_queue_folder / "TopicA" / "0")
        assert int(files[0].name) > 0
        assert disk.calls["load"], "of pages that the search for the first entry reads"


def test_blocks_that_a_worker_reserved_do_not_end_a_file(tmp_path: Path) -> None:
    """The worker's note comes later than its work: the writer looks at the blocks themselves."""
    with loaded(small_config(tmp_path, mapped_file_size_commit_log=8 * 1024 * 1024)) as store:
        store.writer.append(message(0))
        log = store._log
        segment = log.segments.segments[0]
        segment.reserve(5 * 1024 * 1024)
        for number in range(1, 3000):
            store.writer.append(message(number, size=1000))
        assert [one.start for one in log.segments.segments] == [0]
