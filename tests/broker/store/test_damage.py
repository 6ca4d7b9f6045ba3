"""Damage that recovery must not hide, and derived data that must not keep a store from opening."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.broker.disk import PAGE, Usage
from rmqcli.broker.disk.real import RealDisk
from rmqcli.broker.store import MessageStore, StoreDamaged, StoreSizeMismatch, open_store
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.codec.store.checkpoint import SAFE_POINT_AT
from rmqcli.codec.store.consume_queue import ENTRY
from tests.broker.store.support import (
    HOST,
    LOG_SIZE,
    START_MS,
    Clock,
    Rebuild,
    inline,
    killed,
    loaded,
    message,
    numbers,
    queue_bytes,
    small_config,
)
from tests.seeds import seeds

COUNT = 150
HOUR_MS = 3_600_000
Damage = Callable[[Path], None]


async def filled(root: Path, count: int = COUNT) -> None:
    """A store that was stopped cleanly."""
    async with open_store(
        small_config(root), now_ms=Clock(step=7), store_host=HOST, in_thread=inline
    ) as store:
        for number in range(count):
            store.writer.append(message(number, queue_id=number % 3))


@pytest.fixture(scope="module", params=["clean", "killed", "killed later"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as brokers leave it: read only."""
    root = tmp_path_factory.mktemp("made")
    trio.run(filled, root / "store")
    if request.param == "clean":
        return root / "store"
    with loaded(small_config(root / "store"), Clock(START_MS + HOUR_MS)) as store:
        for number in range(COUNT, COUNT + 3 if request.param == "killed later" else COUNT):
            store.writer.append(message(number, queue_id=number % 3))
        return killed(root / "store", root / "killed")


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "store")


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def overwrite(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def flip(path: Path, position: int, bit: int = 1) -> None:
    overwrite(path, position, bytes([path.read_bytes()[position] ^ bit]))


def damage_record(root: Path, number: int) -> int:
    """Flips a bit in the body of a record; returns its commit-log offset."""
    offset = Rebuild(root).records[number].commit_log_offset
    flip(log_files(root)[offset // LOG_SIZE], offset % LOG_SIZE + 120)
    return offset


def test_damage_in_the_middle_is_refused_and_nothing_changes(folder: Path) -> None:
    offset = damage_record(folder, 100)
    before = {path: path.read_bytes() for path in log_files(folder)}
    name = f"{offset // LOG_SIZE * LOG_SIZE:020d}: no whole record begins at byte {offset % LOG_SIZE} "
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=re.escape(name)) as error, loaded(small_config(folder)):
            pass
        assert "rmq inspect salvage" in str(error.value)
        assert {path: path.read_bytes() for path in log_files(folder)} == before


def test_what_follows_is_moved_aside_where_that_is_wanted(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offset = damage_record(folder, 100)
    behind = [path for path in log_files(folder) if int(path.name) + LOG_SIZE > offset]
    before = {path.name: path.read_bytes() for path in behind}
    with loaded(small_config(folder, move_damaged_log_aside=True)) as store:
        assert store.commit_log_max_offset == offset
        assert sorted(n for q in range(3) for n in numbers(store, "TopicA", q)) == list(range(100))
        assert store.writer.append(message(100, queue_id=1)).physical_offset == offset
    kept = folder / "commitlog.removed" / "1"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    assert f"not whole at offset {offset}" in caplog.text or f"ends at offset {offset}" in caplog.text
    assert str(kept) in caplog.text


class FullDisk(RealDisk):
    """Ten MiB are left."""

    def usage(self, path: Path) -> Usage:
        return Usage(1 << 40, (1 << 40) - (10 << 20), 10 << 20)


def test_what_there_is_no_room_to_keep_is_not_removed(folder: Path) -> None:
    """The start is refused; it succeeds once there is room."""
    offset = damage_record(folder, 100)
    before = {path: path.read_bytes() for path in log_files(folder)}
    config = small_config(folder, move_damaged_log_aside=True)
    with pytest.raises(StoreDamaged, match="Free some space"), loaded(config, disk=FullDisk()):
        pass
    assert {path: path.read_bytes() for path in log_files(folder)} == before
    with loaded(config) as store:
        assert store.commit_log_max_offset == offset


def test_a_torn_end_is_cut_with_a_line(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with loaded(small_config(folder)) as store:
        end = store.commit_log_max_offset
    shutil.copytree(folder, folder.with_name("torn"))
    torn = folder.with_name("torn")
    (torn / "abort").write_bytes((folder / "abort").read_bytes())
    overwrite(log_files(torn)[-1], end % LOG_SIZE, bytes(range(1, 78)))
    with loaded(small_config(torn)) as store:
        assert store.commit_log_max_offset == end
    assert f"ends at offset {end}: the 77 bytes behind it" in caplog.text


async def test_a_flip_in_the_last_record_loses_only_that(tmp_path: Path) -> None:
    root = tmp_path / "store"
    await filled(root)
    damage_record(root, COUNT - 1)
    with loaded(small_config(root)) as store:
        assert sorted(n for q in range(3) for n in numbers(store, "TopicA", q)) == list(range(COUNT - 1))
        for number in range(COUNT - 1):
            assert len(store.query("TopicA", f"k{number}", 9, 0, 1 << 50).views) == 1
    assert (root / "commitlog.removed" / "1").is_dir()


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "zeros"])
async def test_an_end_of_the_log_that_is_lost_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_gone: bool
) -> None:
    await filled(tmp_path)
    newest = Rebuild(tmp_path).records[-1]
    end = newest.commit_log_offset + newest.store_size
    last = log_files(tmp_path)[-1]
    if is_gone:
        last.unlink()
    else:
        overwrite(last, 0, bytes(last.stat().st_size))
    with loaded(small_config(tmp_path)) as store:
        start = store.commit_log_max_offset
    told = f"the commit log ends at offset {start}, and was on the disk up to offset {end}: the messages in between"
    assert start < end
    assert [text[: len(told)] for text in caplog.messages] == [told]


def test_a_run_that_a_killed_process_had_not_finished_is_no_damage(tmp_path: Path) -> None:
    """The size of its first record is written last; the others are whole, and no queue knows them."""
    with loaded(small_config(tmp_path / "used")) as store:
        for number in range(60):
            store.writer.append(message(number))
        whole = killed(tmp_path / "used", tmp_path / "before")
        for number in range(60, 64):
            store.writer.append(message(number))
        shutil.copytree(tmp_path / "used" / "commitlog", tmp_path / "after")
    offset = Rebuild(tmp_path / "used").records[60].commit_log_offset
    shutil.rmtree(whole / "commitlog")
    shutil.copytree(tmp_path / "after", whole / "commitlog")
    overwrite(log_files(whole)[offset // LOG_SIZE], offset % LOG_SIZE, bytes(4))
    with loaded(small_config(whole)) as store:
        assert store.commit_log_max_offset == offset
        assert numbers(store, "TopicA", 0) == list(range(60))


def test_a_prepared_file_is_nothing_behind_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    last = log_files(folder)[-1]
    last.with_name(f"{int(last.name) + LOG_SIZE:020d}").write_bytes(bytes(LOG_SIZE))
    with loaded(small_config(folder)):
        pass
    assert "commit log" not in caplog.text


def test_a_log_file_that_was_cut_off_is_named(folder: Path) -> None:
    path = log_files(folder)[1]
    path.write_bytes(path.read_bytes()[:5000])
    with (
        pytest.raises(StoreDamaged, match="is cut off: it has 5000 of") as error,
        loaded(small_config(folder)),
    ):
        pass
    assert "mappedFileSize" not in str(error.value)


def test_a_queue_file_that_was_cut_off_is_rebuilt(folder: Path) -> None:
    path = sorted((folder / "consumequeue" / "TopicA" / "1").iterdir())[0]
    path.write_bytes(path.read_bytes()[:100])
    assert_whole(folder)


# --- power cuts on a simulated disk

ROOT = Path("/store")


async def test_a_clock_that_was_ahead_once(autojump_clock: trio.testing.MockClock) -> None:
    """A clean stop an hour ahead, then 200 messages at the right time, then a power cut."""
    disk = SimulatedDisk(7)
    async with open_store(
        small_config(ROOT), now_ms=Clock(START_MS + HOUR_MS, 1), store_host=HOST, in_thread=inline, disk=disk
    ) as store:
        for number in range(20):
            store.writer.append(message(number, queue_id=number % 3))
    config = small_config(ROOT, flush_disk_type="SYNC_FLUSH")
    async with open_store(
        config, now_ms=Clock(START_MS, 1), store_host=HOST, in_thread=inline, disk=disk
    ) as store:
        for number in range(20, 220):
            result = store.writer.append(message(number, queue_id=number % 3))
        assert await store.wait_flushed(result.physical_offset + result.size)
        after = [disk.power_cut() for _ in range(10)]
    for cut in after:
        with loaded(small_config(ROOT), Clock(START_MS + 1000), cut) as store:
            assert sorted(n for q in range(3) for n in numbers(store, "TopicA", q)) == list(range(220))
            assert store.writer.append(message(220, queue_id=1)).queue_offset == 73


async def test_a_checkpoint_of_java_from_the_future_is_not_believed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    await filled(root)
    checkpoint = bytearray((root / "checkpoint").read_bytes())
    checkpoint[:16] = (START_MS + HOUR_MS).to_bytes(8, "big") * 2
    checkpoint[SAFE_POINT_AT:] = bytes(len(checkpoint) - SAFE_POINT_AT)
    (root / "checkpoint").write_bytes(checkpoint)
    (root / "abort").touch()
    with loaded(small_config(root), Clock(START_MS + HOUR_MS)) as store:
        assert (store.recovery.start, store.recovery.records) == (0, COUNT)


async def test_entries_that_were_cut_do_not_come_back(autojump_clock: trio.testing.MockClock) -> None:
    """A power cut; recovery zeroes entries of lost records; the next cut must not bring them back."""
    for seed in range(40):
        disk = SimulatedDisk(seed)
        async with open_store(
            small_config(ROOT), now_ms=Clock(step=1), store_host=HOST, in_thread=inline, disk=disk
        ) as store:
            for number in range(30):
                store.writer.append(message(number, topic="Idle" if number % 2 else "Busy", size=700))
                if number == 20:
                    await store.make_durable()
            await store._flusher._flush_queues(1)  # entries are on the disk, most of their records are not
            disk = disk.power_cut()
        with loaded(small_config(ROOT), Clock(START_MS + 1000), disk) as store:
            pass
        async with open_store(
            small_config(ROOT), now_ms=Clock(START_MS + 2000, 1), store_host=HOST, in_thread=inline, disk=disk
        ) as store:
            for number in range(100, 140):
                store.writer.append(message(number, topic="Busy", size=rng_size(seed, number)))
            await store.make_durable()
            await store._flusher.flush_all_queues()
            disk = disk.power_cut()
        with loaded(small_config(ROOT), Clock(START_MS + 9000), disk) as store:
            assert_entries_lead_to_records(store)


def rng_size(seed: int, number: int) -> int:
    return random.Random(seed * 1000 + number).randrange(20, 900)


def assert_entries_lead_to_records(store: MessageStore) -> None:
    for topic in store.topics():
        for queue_id in store.queue_ids(topic):
            own = numbers(store, topic, queue_id)
            low, high = store.search.min_offset(topic, queue_id), store.search.max_offset(topic, queue_id)
            assert len(own) == high - low
            assert own == sorted(set(own))


async def test_a_record_that_lacks_a_page_is_not_served(autojump_clock: trio.testing.MockClock) -> None:
    """No CRC covers properties: a page of them that was lost reads as NULs."""
    text = "v" * (3 * PAGE)
    disk = SimulatedDisk(1)
    config = small_config(ROOT, mapped_file_size_commit_log=16 * PAGE)
    async with open_store(
        config, now_ms=Clock(step=1), store_host=HOST, in_thread=inline, disk=disk
    ) as store:
        store.writer.append(message(0))
        await store.make_durable()
        await store._flusher.flush_all_queues()
        store.writer.append(message(1, text=text))
        lost = disk.power_cut()
        path = ROOT / "commitlog" / f"{0:020d}"
        whole = disk.read(path)
    end = whole.rstrip(b"\0").rfind(b"v")
    for page in range(PAGE, end, PAGE):
        lost.write(path, whole[:page] + bytes(PAGE) + whole[page + PAGE :])
        with loaded(config, Clock(START_MS + 1000), lost.power_cut()) as store:
            assert numbers(store, "TopicA", 0) == [0]


# --- derived data


def _flips(part: str) -> Damage:
    def damage(root: Path) -> None:
        rng = random.Random(len(str(root)) * 7 + sum(part.encode()))
        files = [path for path in sorted((root / part).rglob("*")) if path.is_file()] or [root / part]
        for _ in range(20):
            path = rng.choice(files)
            data = path.read_bytes()
            used = [n for n, byte in enumerate(data) if byte] or [0]
            flip(path, rng.choice(used), 1 << rng.randrange(8))

    return damage


def _last_size(root: Path) -> None:
    path = sorted((root / "consumequeue" / "TopicA" / "1").iterdir())[-1]
    data = path.read_bytes()
    last = max(n for n in range(0, len(data), ENTRY.size) if any(data[n : n + ENTRY.size]))
    flip(path, last + 8, 0x20)


def _middle_entry(root: Path) -> None:
    path = sorted((root / "consumequeue" / "TopicA" / "1").iterdir())[-2]
    overwrite(path, 3 * ENTRY.size + 8, bytes(4))


def _index_count(root: Path) -> None:
    flip(sorted((root / "index").iterdir())[-1], 37, 0x80)


def _index_header(root: Path) -> None:
    """Its first page was never written."""
    path = sorted((root / "index").iterdir())[0]
    overwrite(path, 0, bytes(min(PAGE, path.stat().st_size)))


def _index_cut_off(root: Path) -> None:
    path = sorted((root / "index").iterdir())[0]
    path.write_bytes(path.read_bytes()[:751])


def _remove(name: str) -> Damage:
    def damage(root: Path) -> None:
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


SEEN = {
    "the size of a last entry": _last_size,
    "an entry in the middle": _middle_entry,
    "the count of an index file": _index_count,
    "the header of an index file": _index_header,
    "an index file is cut off": _index_cut_off,
    "a queue is gone": _remove("consumequeue/TopicA/1"),
    "all queues are gone": _remove("consumequeue"),
    "the index is gone": _remove("index"),
    "the checkpoint is gone": _remove("checkpoint"),
}
FLIPS = {f"flips in {part}": _flips(part) for part in ("consumequeue", "index", "checkpoint")}


@pytest.mark.parametrize("damage", SEEN.values(), ids=SEEN)
def test_derived_data_is_rebuilt(folder: Path, damage: Damage, caplog: pytest.LogCaptureFixture) -> None:
    damage(folder)
    assert_whole(folder)


@pytest.mark.parametrize("damage", (SEEN | FLIPS).values(), ids=SEEN | FLIPS)
def test_a_start_that_checks_everything_equals_a_rebuild(folder: Path, damage: Damage) -> None:
    damage(folder)
    assert_whole(folder, check_store_on_start=True)


@pytest.mark.parametrize("seed", seeds(8))
async def test_no_flip_in_derived_data_stops_a_start(tmp_path: Path, seed: int) -> None:
    await filled(tmp_path / "store", 60)
    rng = random.Random(seed)
    for number in range(10):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "store", root)
        if rng.random() < 0.5:
            (root / "abort").touch()
        files = [path for name in ("consumequeue", "index") for path in (root / name).rglob("0*")]
        path = rng.choice([*(path for path in files if path.is_file()), root / "checkpoint"])
        data = path.read_bytes()
        flip(path, rng.choice([n for n, byte in enumerate(data) if byte]), 1 << rng.randrange(8))
        with loaded(small_config(root), Clock(START_MS + HOUR_MS)) as store:
            store.writer.append(message(60))


def assert_whole(root: Path, **settings: bool) -> None:
    count = len(Rebuild(root).records)
    with loaded(small_config(root, **settings), Clock(START_MS + 2 * HOUR_MS)) as store:
        assert sorted(n for q in range(3) for n in numbers(store, "TopicA", q)) == list(range(count))
        for number in range(count):
            assert len(store.query("TopicA", f"k{number}", 9, 0, 1 << 50).views) == 1
    assert queue_bytes(root) == Rebuild(root).queues()


# --- fields that no CRC covers


QUEUE_ID_AT, QUEUE_OFFSET_AT = 12, 20


def field_of_record(root: Path, number: int, at: int, data: bytes) -> int:
    """Overwrites bytes of a record; returns its commit-log offset."""
    offset = Rebuild(root).records[number].commit_log_offset
    overwrite(log_files(root)[offset // LOG_SIZE], offset % LOG_SIZE + at, data)
    return offset


def topic_at(root: Path, number: int) -> int:
    offset = Rebuild(root).records[number].commit_log_offset
    return log_files(root)[offset // LOG_SIZE].read_bytes().index(b"TopicA", offset % LOG_SIZE) - (
        offset % LOG_SIZE
    )


def number(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "big", signed=True)


@pytest.mark.parametrize("rebuilt", ["folder gone", "all compared"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda root: field_of_record(root, 60, QUEUE_OFFSET_AT, number(20 + 1000)),
        lambda root: field_of_record(root, 60, QUEUE_OFFSET_AT, number(20 + 1)),
        lambda root: field_of_record(root, 60, QUEUE_OFFSET_AT, number(18)),
        lambda root: field_of_record(root, 60, QUEUE_OFFSET_AT, number(0)),
        lambda root: field_of_record(root, 60, QUEUE_OFFSET_AT, number(-5)),
        lambda root: field_of_record(root, 60, QUEUE_OFFSET_AT, number(1 << 62)),
        lambda root: field_of_record(root, 60, QUEUE_ID_AT, number(-3, 4)),
        lambda root: field_of_record(root, 60, QUEUE_ID_AT, number(1, 4)),
        lambda root: field_of_record(root, 60, topic_at(root, 60) + 1, b"/"),
        lambda root: field_of_record(root, 60, topic_at(root, 60) + 1, b"\0"),
        lambda root: field_of_record(root, 60, topic_at(root, 60), b"../../"),
    ],
)
def test_a_record_with_a_wrong_place_hides_no_other(
    folder: Path, damage: Damage, rebuilt: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its place stays empty: neither are those behind it hidden, nor is an offset given twice."""
    damage(folder)
    if rebuilt == "folder gone":
        shutil.rmtree(folder / "consumequeue")
    count = len(Rebuild(folder).records)
    for _ in range(2):
        with loaded(small_config(folder, check_store_on_start=rebuilt == "all compared")) as store:
            for queue_id in range(3):
                found = numbers(store, "TopicA", queue_id)
                hidden = set(range(queue_id, count, 3)) - set(found)
                assert len(hidden) <= 1 and hidden <= {60, 61}  # it may take the place of another one
                assert store.search.max_offset("TopicA", queue_id) == -(-(count - queue_id) // 3)
            assert store.topics() == ["TopicA"]
    assert "of the commit log" in caplog.text


@pytest.mark.parametrize("queue_offset", [51, 1000, -1])
def test_a_wrong_place_at_the_end_is_not_given_again(tmp_path: Path, queue_offset: int) -> None:
    trio.run(filled, tmp_path / "store")
    root = tmp_path / "store"
    field_of_record(root, COUNT - 1, QUEUE_OFFSET_AT, number(queue_offset))
    shutil.rmtree(root / "consumequeue")
    with loaded(small_config(root)) as store:
        assert store.search.max_offset("TopicA", 2) >= COUNT // 3
        assert numbers(store, "TopicA", 2)[: COUNT // 3 - 1] == list(range(2, COUNT - 3, 3))


def test_minima_are_found_beside_entries_that_stay_empty(folder: Path) -> None:
    """A search by commit-log offset passes them."""
    field_of_record(folder, 120, QUEUE_OFFSET_AT, number(-5))
    shutil.rmtree(folder / "consumequeue")
    kept = [log_files(folder)[0], log_files(folder)[1]]
    with loaded(small_config(folder)):
        pass
    first = next(
        r for r in Rebuild(folder).records if r.commit_log_offset >= 2 * LOG_SIZE and r.queue_id == 0
    )
    for path in kept:
        path.unlink()
    with loaded(small_config(folder)) as store:
        assert store.search.min_offset("TopicA", 0) == first.queue_offset


# --- damage before the part of the log that a start checks


@pytest.mark.parametrize("reads", ["compared", "queue gone", "index gone"])
def test_damage_before_the_checked_part_is_refused_once_it_is_read(folder: Path, reads: str) -> None:
    """Entries and index items would end there."""
    (folder / "abort").unlink(missing_ok=True)
    with loaded(small_config(folder)) as store:
        for one in range(COUNT + 3, 4 * COUNT):
            store.writer.append(message(one, queue_id=one % 3))
    (folder / "abort").unlink()
    field_of_record(folder, 20, 4, b"\xdb")
    if reads != "compared":
        shutil.rmtree(folder / ("index" if reads == "index gone" else "consumequeue/TopicA/2"))
    logs = {path: path.read_bytes() for path in log_files(folder)}
    config = small_config(folder, check_store_on_start=reads == "compared")
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="whole records follow"), loaded(config):
            pass
        assert {path: path.read_bytes() for path in log_files(folder)} == logs
    aside = small_config(folder, check_store_on_start=reads == "compared", move_damaged_log_aside=True)
    with loaded(aside) as store:
        assert sorted(n for q in range(3) for n in numbers(store, "TopicA", q)) == list(range(20))
        assert len(store.query("TopicA", "k19", 9, 0, 1 << 50).views) == 1
        assert store.writer.append(message(20, queue_id=2)).queue_offset == 6
    assert {path.name for path in (folder / "commitlog.removed" / "1").iterdir()} == {p.name for p in logs}


# --- a start that is refused


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "lock"}


async def test_files_of_another_size_are_refused_and_stay_as_they_are(tmp_path: Path) -> None:
    """Queues with one short file each could be extended; a broker with the right setting would refuse them."""
    root = tmp_path / "store"
    await filled(root, 30)
    before = contents(root)
    with (
        pytest.raises(StoreSizeMismatch, match=f"mappedFileSizeConsumeQueue={20 * 16}"),
        loaded(small_config(root, mapped_file_size_consume_queue=20 * 1000)),
    ):
        pass
    assert contents(root) == before
    with loaded(small_config(root)) as store:
        assert sorted(n for q in range(3) for n in numbers(store, "TopicA", q)) == list(range(30))


@pytest.mark.parametrize("power_lost", [False, True])
def test_a_refused_start_leaves_queues_and_index_alone(tmp_path: Path, power_lost: bool) -> None:
    with loaded(small_config(tmp_path / "store")) as store:
        for one in range(COUNT):
            store.writer.append(message(one, queue_id=one % 3))
        root = killed(tmp_path / "store", tmp_path / "killed", power_lost=power_lost)
    damage_record(root, 100)
    queue = sorted((root / "consumequeue" / "TopicA" / "1").iterdir())[-1]
    overwrite(queue, len(queue.read_bytes().rstrip(b"\0")) + 8 * ENTRY.size // 4, b"stale entries")
    if power_lost:
        (root / "checkpoint").write_bytes((START_MS + HOUR_MS).to_bytes(8, "big") * 2 + bytes(4096 - 16))
    before = contents(root)
    with pytest.raises(StoreDamaged), loaded(small_config(root), Clock(START_MS + 2 * HOUR_MS)):
        pass
    assert contents(root) == before


@pytest.mark.parametrize("place", ["queue", "index"])
def test_a_file_of_a_length_that_others_contradict_is_rebuilt(folder: Path, place: str) -> None:
    part = folder / ("consumequeue/TopicA/1" if place == "queue" else "index")
    path = sorted(part.iterdir())[0]
    path.write_bytes(path.read_bytes() + b"x")
    assert_whole(folder)


@pytest.mark.parametrize("length", [3, 100, 4096, -1])
def test_the_only_index_file_that_was_cut_off_is_rebuilt(folder: Path, length: int) -> None:
    for path in sorted((folder / "index").iterdir())[:-1]:
        path.unlink()
    path = next(iter((folder / "index").iterdir()))
    path.write_bytes(path.read_bytes()[:length])
    assert_whole(folder, check_store_on_start=True)


@pytest.mark.parametrize("at", [0, 8])
def test_times_of_an_index_file_that_contradict_it_are_noticed(folder: Path, at: int) -> None:
    """Begin and end decide whether a query looks into the file."""
    path = sorted((folder / "index").iterdir())[0]
    overwrite(path, at, number(START_MS // 2))
    assert_whole(folder)


async def test_a_gap_in_an_extension_is_no_reason_to_refuse(tmp_path: Path) -> None:
    config = small_config(
        tmp_path / "store", enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=256
    )
    async with open_store(config, now_ms=Clock(step=7), store_host=HOST, in_thread=inline) as store:
        for one in range(40):
            store.writer.append(message(one))
    files = sorted((tmp_path / "store" / "consumequeue_ext" / "TopicA" / "0").iterdir())
    files[1].unlink()
    with loaded(config) as store:
        assert numbers(store, "TopicA", 0) == list(range(40))
