"""A topic that was deleted does not come back, whatever a recovery reads."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.broker.store import open_store
from rmqcli.broker.testing.disk import SimulatedDisk
from tests.broker.store.support import (
    HOST,
    START_MS,
    Clock,
    inline,
    killed,
    loaded,
    message,
    numbers,
    small_config,
)

CHECKED = {"check_store_on_start": True}


@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize("settings", [{}, CHECKED], ids=["", "checked"])
async def test_after_a_kill(tmp_path: Path, power_lost: bool, settings: dict[str, bool]) -> None:
    with loaded(small_config(tmp_path / "used")) as store:
        for number in range(100):
            store.writer.append(message(number, topic="Gone"))
            store.writer.append(message(number, topic="Kept"))
        assert await store.retention.delete_topic("Gone") == 1
        root = killed(tmp_path / "used", tmp_path / "killed", power_lost=power_lost)
    for _ in range(2):
        with loaded(small_config(root, **settings), Clock(START_MS + 10_000)) as store:
            assert store.topics() == ["Kept"]
            assert numbers(store, "Kept", 0) == list(range(100))


@pytest.mark.parametrize("settings", [{}, CHECKED], ids=["", "checked"])
async def test_created_again(tmp_path: Path, settings: dict[str, bool]) -> None:
    with loaded(small_config(tmp_path / "used")) as store:
        for number in range(50):
            store.writer.append(message(number, topic="Gone"))
        await store.retention.clean_unused(["Kept"])
        for number in range(50, 60):
            assert store.writer.append(message(number, topic="Gone")).queue_offset == number - 50
        root = killed(tmp_path / "used", tmp_path / "killed")
    shutil.rmtree(root / "consumequeue")
    for _ in range(2):
        with loaded(small_config(root, **settings), Clock(START_MS + 10_000)) as store:
            assert (store.search.min_offset("Gone", 0), store.search.max_offset("Gone", 0)) == (0, 10)
            assert numbers(store, "Gone", 0) == list(range(50, 60))


async def test_after_a_clean_stop_without_any_other_message(tmp_path: Path) -> None:
    for _ in range(2):
        async with open_store(
            small_config(tmp_path), now_ms=Clock(step=1), store_host=HOST, in_thread=inline
        ) as store:
            assert store.topics() == []
            store.writer.append(message(0, topic="Gone"))
            await store.retention.delete_topic("Gone")


async def test_a_refused_deletion_is_not_carried_out_later() -> None:
    disk, config = SimulatedDisk(), small_config(Path("/store"))

    def refuse(call: str) -> None:
        if call == "sync_folder":
            raise OSError(errno.EIO, "refused")

    async with open_store(
        config, now_ms=Clock(step=1), store_host=HOST, in_thread=inline, disk=disk
    ) as store:
        for number in range(10):
            store.writer.append(message(number, topic="Stays"))
            store.writer.append(message(number, topic="Gone"))
        disk.on_call = refuse
        with pytest.raises(OSError, match="refused"):
            await store.retention.delete_topic("Stays")
        disk.on_call = None
        assert store.writer.append(message(10, topic="Stays")).queue_offset == 10
        await store.retention.delete_topic("Gone")
        left = disk.killed()
    with loaded(small_config(Path("/store"), **CHECKED), Clock(START_MS + 10_000), left) as store:
        assert store.topics() == ["Stays"]
        assert numbers(store, "Stays", 0) == list(range(11))


@pytest.mark.parametrize("end", [SimulatedDisk.killed, SimulatedDisk.power_cut])
async def test_messages_after_a_refused_deletion_stay(
    end: Callable[[SimulatedDisk], SimulatedDisk], autojump_clock: trio.testing.MockClock
) -> None:
    """The disk has the mark, although it refused the last call: what was stored before may be deleted."""
    disk, config = SimulatedDisk(), small_config(Path("/store"))
    calls = iter(range(1000))

    def refuse(call: str) -> None:
        if call == "sync_folder" and next(calls) == 0:
            raise OSError(errno.EIO, "refused")

    async with open_store(
        config, now_ms=Clock(step=1), store_host=HOST, in_thread=inline, disk=disk
    ) as store:
        for number in range(10):
            store.writer.append(message(number))
        disk.on_call = refuse
        with pytest.raises(OSError, match="refused"):
            await store.retention.delete_topic("TopicA")
        assert store.writer.append(message(10)).queue_offset == 10
        store.writer.append(message(11, topic="TopicB"))
        await trio.sleep(100)  # all is flushed, and noted in the checkpoint
        found = []
        for _ in range(20):
            with loaded(config, Clock(START_MS + 10_000), end(disk)) as after:
                found.append(numbers(after, "TopicA", 0))
    assert [10] in found
    assert all(kept in ([10], list(range(11))) for kept in found)


async def test_deleted_before_it_is_answered(autojump_clock: trio.testing.MockClock) -> None:
    """Power is lost at any call to the disk; once `delete_topic` has returned, the topic stays away."""
    for seed in range(60):
        disk = SimulatedDisk(seed)
        async with open_store(
            small_config(Path("/store")), now_ms=Clock(step=1), store_host=HOST, in_thread=inline, disk=disk
        ) as store:
            for number in range(60):
                store.writer.append(message(number, topic="Gone" if number % 2 else "Kept"))
            await store.make_durable()
            await store.retention.delete_topic("Gone")
            after = disk.power_cut()
        with loaded(small_config(Path("/store")), Clock(START_MS + 10_000), after) as store:
            assert store.topics() == ["Kept"]
            assert numbers(store, "Kept", 0) == list(range(0, 60, 2))


@pytest.mark.parametrize("flushed", [0, 5])
async def test_created_again_where_the_log_was_lost(
    flushed: int, autojump_clock: trio.testing.MockClock
) -> None:
    """Power is lost after a deletion, and with it the end of the log: what is stored there later is kept."""
    config, disk = small_config(Path("/store")), SimulatedDisk()
    async with open_store(
        config, now_ms=Clock(step=1), store_host=HOST, in_thread=inline, disk=disk
    ) as store:
        for number in range(60):
            store.writer.append(message(number, topic="Gone" if number >= flushed else "Kept"))
            if number + 1 == flushed:
                await store.make_durable()
        await store.retention.delete_topic("Gone")
        after = next(cut for _ in range(99) if not _log_behind(cut := disk.power_cut(), flushed))
    with loaded(config, Clock(START_MS + 10_000), after) as store:
        assert store.topics() == ["Kept"] * (flushed > 0)
        for number in range(3):
            store.writer.append(message(number, topic="Gone"))
    for _ in range(2):
        after = after.killed()
        with loaded(config, Clock(START_MS + 20_000), after) as store:
            assert numbers(store, "Gone", 0) == list(range(3))


def _log_behind(disk: SimulatedDisk, flushed: int) -> bool:
    """True if the disk has more than the records that were flushed."""
    return sum(content.count(b":bbb") for content in disk.contents().values()) > flushed


async def test_what_the_log_no_longer_has_is_forgotten(tmp_path: Path) -> None:
    config = small_config(tmp_path, file_reserved_time=0, delete_files_batch_max=100)
    with loaded(config, Clock(START_MS * 2)) as store:
        store.writer.append(message(0, topic="First"))
        await store.retention.delete_topic("First")
        for number in range(300):
            store.writer.append(message(number, topic="Second"))
        await store.retention.delete_expired_files()
        assert store.commit_log_min_offset > 1000
        await store.retention.delete_topic("Second")
        assert b"First" not in config.deleted_topics_file.read_bytes()
        assert b"Second" in config.deleted_topics_file.read_bytes()


async def test_a_topic_with_a_later_record_stays(tmp_path: Path) -> None:
    async with open_store(small_config(tmp_path), now_ms=Clock(), store_host=HOST, in_thread=inline) as store:
        store.writer.append(message(1, topic="T"))
        end = store.commit_log_max_offset
        store.writer.append(message(2, topic="Other"))
        store.writer.append(message(3, topic="T"))
        assert await store.retention.delete_topic("T", end) == 0
        assert store.queue_ids("T") == [message(1).queue_id]
        assert await store.retention.delete_topic("T", store.commit_log_max_offset) == 1
        assert store.queue_ids("T") == []
