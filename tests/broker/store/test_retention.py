"""Which files are deleted when, and what follows them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.broker.disk import Usage
from rmqcli.broker.disk.real import RealDisk
from rmqcli.broker.store import GetStatus, MessageStore, PutStatus, open_store
from rmqcli.broker.store.commit_log import SPACE_STEP
from rmqcli.broker.store.retention import FIRST_RUN_S, LEAST_FREE
from rmqcli.broker.supervisor import Supervisor, open_services
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.power_cut import Journal
from tests.broker.store.support import HOST, LOG_SIZE, Clock, inline, loaded, message, numbers, small_config

HOUR = 3_600_000
NOW = 1_800_000_000_000
NEVER = "99"
COUNT = 230


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


class FilledDisk(RealDisk):
    """The disk of the tests' folder, as full as `percent` says, with `least_free` bytes left."""

    percent = 50.0
    least_free = LEAST_FREE

    def __init__(self) -> None:
        super().__init__()
        self.checks = 0
        self.failures: dict[str, int] = {}
        """The number of calls of "usage" and "unlink" that fail next, or of unlinks below a folder."""

    def _fail(self, call: str) -> None:
        if self.failures.get(call, 0):
            self.failures[call] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), call)

    def unlink(self, path: Path) -> None:
        self._fail("unlink")
        for folder in path.parts:
            self._fail(folder)
        super().unlink(path)

    def usage(self, path: Path) -> Usage:
        self.checks += 1
        self._fail("usage")
        return Usage(100 * LEAST_FREE, int(self.percent * LEAST_FREE), self.least_free)


@pytest.fixture
def disk() -> FilledDisk:
    return FilledDisk()


@pytest.fixture
def store(tmp_path: Path, clock: Clock, disk: FilledDisk) -> Iterator[MessageStore]:
    """230 messages in seven log files, the disk half full, no hour to delete."""
    with loaded(small_config(tmp_path, delete_when=NEVER), clock, disk) as store:
        for number in range(COUNT):
            store.writer.append(message(number, size=300))
        assert len(logs(tmp_path)) == 7
        age(tmp_path, 1)
        yield store


def logs(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def age(root: Path, hours: int, count: int | None = None) -> None:
    """Makes the first `count` log files look so old."""
    for path in logs(root)[:count]:
        os.utime(path, ns=(0, (NOW - hours * HOUR) * 1_000_000))


async def test_nothing_goes_outside_its_hour(
    tmp_path: Path, store: MessageStore, autojump_clock: trio.testing.MockClock
) -> None:
    age(tmp_path, 100)
    assert await store.retention.run_once() == 0


async def test_expired_files_go_but_the_last(
    tmp_path: Path, store: MessageStore, autojump_clock: trio.testing.MockClock
) -> None:
    age(tmp_path, 73, 3)
    store.retention.request_runs()
    assert await store.retention.run_once() == 3
    assert store.commit_log_min_offset == 3 * LOG_SIZE
    first = store.search.min_offset("TopicA", 0)
    assert numbers(store, "TopicA", 0) == list(range(first, COUNT))
    assert store.reader.get("TopicA", 0, first - 1, 1).status is GetStatus.OFFSET_TOO_SMALL
    age(tmp_path, 73)
    assert await store.retention.run_once() == 3
    assert len(logs(tmp_path)) == 1


async def test_queue_and_index_files_follow(
    tmp_path: Path, store: MessageStore, autojump_clock: trio.testing.MockClock
) -> None:
    queue_files = len(list((tmp_path / "consumequeue" / "TopicA" / "0").iterdir()))
    store.query("TopicA", "all", 1, 0, 1)
    index_files = len(list((tmp_path / "index").iterdir()))
    age(tmp_path, 73)
    assert await store.retention.delete_expired_files() == 6
    assert len(list((tmp_path / "consumequeue" / "TopicA" / "0").iterdir())) < queue_files - 8
    assert len(list((tmp_path / "index").iterdir())) < index_files
    assert store.query("TopicA", f"k{COUNT - 1}", 9, 0, 1 << 50).views
    assert not store.query("TopicA", "k3", 9, 0, 1 << 50).views


@pytest.mark.parametrize(
    ("percent", "expired", "deleted", "writable"),
    [
        (74.0, 3, 0, True),
        (76.0, 3, 3, True),
        (76.0, 0, 0, True),
        (86.0, 0, 6, True),
        (91.0, 0, 6, False),
    ],
)
async def test_a_full_disk_deletes(
    tmp_path: Path,
    store: MessageStore,
    disk: FilledDisk,
    autojump_clock: trio.testing.MockClock,
    percent: float,
    expired: int,
    deleted: int,
    writable: bool,
) -> None:
    age(tmp_path, 73, expired)
    disk.percent = percent
    assert await store.retention.run_once() == deleted
    assert store.stats.writable is writable
    assert (store.writer.append(message()).status is PutStatus.PUT_OK) is writable
    disk.percent = 50.0
    await store.retention.run_once()
    assert store.stats.writable


async def test_a_disk_with_hardly_any_room_left_is_noticed_while_writing(
    tmp_path: Path, disk: FilledDisk, autojump_clock: trio.testing.MockClock
) -> None:
    config = small_config(tmp_path, delete_when=NEVER, mapped_file_size_commit_log=16 << 20)
    async with open_store(config, now_ms=Clock(NOW), store_host=HOST, in_thread=inline, disk=disk) as store:
        disk.least_free -= 1
        results = []
        for number in range(2000):
            results.append(store.writer.append(message(number, size=900)).status)
            await trio.lowlevel.checkpoint()
        refused = results.index(PutStatus.SERVICE_NOT_AVAILABLE)
        assert 0 < refused < SPACE_STEP / 900 + 10
        assert set(results[:refused]) == {PutStatus.PUT_OK}
        assert set(results[refused:]) == {PutStatus.SERVICE_NOT_AVAILABLE}
        await store.retention.run_once()
        assert not store.stats.writable
        disk.least_free = LEAST_FREE
        await store.retention.run_once()
        assert store.writer.append(message()).status is PutStatus.PUT_OK


async def test_room_is_checked_every_megabyte(
    tmp_path: Path, disk: FilledDisk, autojump_clock: trio.testing.MockClock
) -> None:
    config = small_config(tmp_path, mapped_file_size_commit_log=16 << 20)
    async with open_store(config, now_ms=Clock(NOW), store_host=HOST, in_thread=inline, disk=disk) as store:
        disk.checks = 0
        for number in range(4000):
            store.writer.append(message(number, size=900))
            await trio.lowlevel.checkpoint()
        assert disk.checks in (
            store.commit_log_max_offset // SPACE_STEP,
            store.commit_log_max_offset // SPACE_STEP + 1,
        )


async def test_views_of_deleted_files_stay_readable(
    tmp_path: Path, store: MessageStore, autojump_clock: trio.testing.MockClock
) -> None:
    view = store.reader.get("TopicA", 0, 0, 1).views[0]
    age(tmp_path, 73)
    assert await store.retention.delete_expired_files() == 6
    assert not (tmp_path / "commitlog" / f"{0:020d}").exists()
    assert bytes(view)[88:90] == b"0:"


async def test_the_service_runs_each_ten_seconds(
    tmp_path: Path, store: MessageStore, clock: Clock, autojump_clock: trio.testing.MockClock
) -> None:
    age(tmp_path, 73, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.retention.run)
        store.retention.request_runs()
        await trio.sleep(59)
        assert len(logs(tmp_path)) == 7
        await trio.sleep(2)
        assert len(logs(tmp_path)) == 6
        age(tmp_path, 73, 2)
        await trio.sleep(10)
        assert len(logs(tmp_path)) == 4
        nursery.cancel_scope.cancel()


async def test_the_hour_of_delete_when(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    every_hour = ";".join(f"{hour:02d}" for hour in range(24))
    with loaded(small_config(tmp_path, delete_when=every_hour), Clock(NOW), FilledDisk()) as store:
        for number in range(50):
            store.writer.append(message(number, size=300))
        age(tmp_path, 73)
        assert await store.retention.run_once() == 1


async def test_queues_without_records_are_cleaned(
    tmp_path: Path, store: MessageStore, autojump_clock: trio.testing.MockClock
) -> None:
    for number in range(120):
        store.writer.append(message(number, topic="Other", size=300))
    age(tmp_path, 73)
    assert await store.retention.delete_expired_files() == 9
    assert store.search.max_offset("TopicA", 0) == store.search.min_offset("TopicA", 0) == COUNT
    assert await store.retention.clean_expired_consume_queues() == 1
    assert store.topics() == ["Other"]


async def test_unused_topics_go(store: MessageStore) -> None:
    for topic in ("Other", "%LMQ%a", "SCHEDULE_TOPIC_XXXX"):
        store.writer.append(message(topic=topic))
    assert await store.retention.clean_unused(["Other"]) == 1
    assert store.topics() == ["Other", "%LMQ%a", "SCHEDULE_TOPIC_XXXX"]


@pytest.mark.parametrize("call", ["usage", "unlink"])
async def test_retention_goes_on_after_an_error_of_the_disk(
    tmp_path: Path,
    store: MessageStore,
    disk: FilledDisk,
    autojump_clock: trio.testing.MockClock,
    call: str,
) -> None:
    age(tmp_path, 73, 3)
    store.retention.request_runs()
    disk.failures[call] = 2
    supervisor = Supervisor()
    async with open_services(supervisor) as services:
        services.start("retention", store.retention.run)
        await trio.sleep(FIRST_RUN_S * 4)
        assert supervisor.errors == {"retention": 2}
    assert [path.name for path in logs(tmp_path)] == [f"{n * LOG_SIZE:020d}" for n in range(3, 7)]
    assert store.writer.append(message(COUNT, size=300)).status is PutStatus.PUT_OK


async def test_a_file_that_cannot_be_removed_keeps_those_behind_it(
    tmp_path: Path, store: MessageStore, disk: FilledDisk, autojump_clock: trio.testing.MockClock
) -> None:
    age(tmp_path, 73, 3)
    disk.failures["unlink"] = 2
    for _ in range(2):
        with pytest.raises(OSError, match="unlink"):
            await store.retention.delete_expired_files()
        assert len(logs(tmp_path)) == 7, "a gap would keep the store from opening"
    await store.retention.delete_expired_files()
    assert len(logs(tmp_path)) == 4


@pytest.mark.parametrize("folder", ["index", "consumequeue"])
async def test_queue_and_index_files_follow_when_the_disk_lets_them(
    tmp_path: Path,
    store: MessageStore,
    disk: FilledDisk,
    autojump_clock: trio.testing.MockClock,
    folder: str,
) -> None:
    """No further log file has to go for that."""
    store.query("TopicA", "all", 1, 0, 1)
    files = files_of(tmp_path / folder)
    age(tmp_path, 73)
    disk.failures[folder] = 1
    with pytest.raises(OSError, match=folder):
        await store.retention.delete_expired_files()
    assert len(logs(tmp_path)) == 1
    await store.retention.run_once()
    assert len(files_of(tmp_path / folder)) < len(files)


async def test_nothing_is_removed_after_a_failed_flush(autojump_clock: trio.testing.MockClock) -> None:
    def fail(name: str) -> None:
        if name == "sync_file":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk, clock = SimulatedDisk(now_ms=lambda: NOW), Clock(NOW)
    config = small_config(Path("/store"), file_reserved_time=0)
    async with open_store(config, now_ms=clock, store_host=HOST, in_thread=inline, disk=disk) as store:
        for number in range(COUNT):
            store.writer.append(message(number))
        disk.on_call = fail
        assert not await store.make_durable()
        assert await store.retention.delete_expired_files() == 0


async def test_queue_offsets_stay_given_when_the_power_fails(autojump_clock: trio.testing.MockClock) -> None:
    """The queue was not flushed when the last record went that knew its offsets."""
    disk, clock = SimulatedDisk(seed=3, now_ms=lambda: NOW), Clock(NOW)
    config = small_config(Path("/store"), file_reserved_time=0)
    async with open_store(config, now_ms=clock, store_host=HOST, in_thread=inline, disk=disk) as store:
        for number in range(3):
            store.writer.append(message(number, queue_id=1))
        for number in range(COUNT):
            store.writer.append(message(number))
        await store.make_durable()
        assert await store.retention.delete_expired_files()
        assert store.commit_log_min_offset > 0
        after = [disk.power_cut(Journal.NONE) for _ in range(10)]
    for one in after:
        async with open_store(config, now_ms=clock, store_host=HOST, in_thread=inline, disk=one) as store:
            assert store.search.max_offset("TopicA", 1) == 3
            assert store.writer.append(message(3, queue_id=1)).queue_offset == 3


async def test_a_topic_that_is_created_again_keeps_its_files(autojump_clock: trio.testing.MockClock) -> None:
    """It is deleted and used again while the retention waits for a cold page of another queue."""
    disk, clock = SimulatedDisk(now_ms=lambda: NOW), Clock(NOW)
    config = small_config(Path("/store"), file_reserved_time=0)

    async def slow(function: Callable[..., object], *arguments: object) -> object:
        await trio.sleep(1)
        return function(*arguments)

    async with open_store(config, now_ms=clock, store_host=HOST, in_thread=slow, disk=disk) as store:
        for number in range(COUNT):
            for topic in ("Again", "Other"):
                await store.when_ready(store.writer.append, message(number, topic=topic))
        disk.forget_pages()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.retention.delete_expired_files)
            while store.search.min_offset("Again", 0) == 0:  # noqa: ASYNC110  nothing tells of it
                await trio.sleep(0.1)
            await store.retention.delete_topic("Again")
            again = await store.when_ready(store.writer.append, message(COUNT, topic="Again"))
        first = config.root / "consumequeue" / "Again" / "0" / f"{0:020d}"
        assert again.queue_offset == 0
        assert first in disk.contents()
