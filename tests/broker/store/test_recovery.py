"""Recovery of folders that were left in a bad state."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.disk import REAL
from rmqcli.broker.store import StoreDamaged, StoreSizeMismatch
from rmqcli.broker.store.checkpoint import Checkpoint
from rmqcli.codec.store.checkpoint import decode_checkpoint, decode_safe_point
from rmqcli.codec.store.consume_queue import ENTRY
from tests.broker.store.support import (
    LOG_SIZE,
    QUEUE_SIZE,
    START_MS,
    Clock,
    Rebuild,
    killed,
    loaded,
    message,
    numbers,
    queue_bytes,
    small_config,
)

COUNT = 150


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a process that was killed after 150 messages to 3 queues of one topic."""
    with loaded(small_config(tmp_path / "used")) as store:
        for number in range(COUNT):
            store.writer.append(message(number, queue_id=number % 3))
            if number == COUNT // 2:
                store.query(
                    "TopicA", "all", 1, 0, 1 << 50
                )  # what was gathered for the index is written before a query
        return killed(tmp_path / "used", tmp_path / "killed")


def check(folder: Path, count: int = COUNT, **settings: Any) -> None:
    """The folder recovers to the first `count` messages, goes on, and its queues equal a rebuild."""
    with loaded(small_config(folder, **settings), Clock(START_MS + 10_000_000)) as store:
        for queue_id in range(3):
            assert numbers(store, "TopicA", queue_id) == list(range(queue_id, count, 3))
        for number in range(count, count + 9):
            assert store.writer.append(message(number, queue_id=number % 3)).queue_offset == number // 3
        for number in range(0, count + 9, 10):
            assert len(store.query("TopicA", f"k{number}", 9, 0, 1 << 50).views) == 1
        assert len(store.query("TopicA", "all", 64, 0, 1 << 50).views) == 64
    assert queue_bytes(folder) == Rebuild(folder).queues()


def log_files(folder: Path) -> list[Path]:
    return sorted((folder / "commitlog").iterdir())


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def log_end(folder: Path) -> int:
    """The end of the last record, as a position in the last file."""
    last = Rebuild(folder).records[-1]
    return last.commit_log_offset % LOG_SIZE + last.store_size


def test_killed(folder: Path) -> None:
    check(folder)


def test_power_lost(tmp_path: Path, folder: Path) -> None:
    check(killed(folder, tmp_path / "lost", power_lost=True))


def test_clean_stop(folder: Path) -> None:
    with loaded(small_config(folder)):
        pass
    (folder / "abort").unlink()
    check(folder)


def test_clean_stop_and_no_index(folder: Path) -> None:
    (folder / "abort").unlink()
    shutil.rmtree(folder / "index")
    check(folder)


def _remove(*names: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for name in names:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def _write_checkpoint(data: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / "checkpoint").write_bytes(data)

    return damage


def _garbage_tail(folder: Path) -> None:
    overwrite(log_files(folder)[-1], log_end(folder), os.urandom(500))


def _empty_last_file(folder: Path) -> None:
    (folder / "commitlog" / f"{len(log_files(folder)) * LOG_SIZE:020d}").touch()


def _zero_file_ahead(folder: Path) -> None:
    (folder / "commitlog" / f"{len(log_files(folder)) * LOG_SIZE:020d}").write_bytes(bytes(LOG_SIZE))


def _short_last_file(folder: Path) -> None:
    os.truncate(log_files(folder)[-1], log_end(folder) + 11)


def _queue_ahead(folder: Path) -> None:
    """Units of records that never came to the log."""
    with_units = sorted((folder / "consumequeue" / "TopicA" / "0").iterdir())[-1]
    start = int(with_units.name) // ENTRY.size
    end = len(log_files(folder)) * LOG_SIZE
    unit = COUNT // 3 - start
    overwrite(with_units, unit * ENTRY.size, ENTRY.pack(end + 5, 300, 1) + ENTRY.pack(end + 305, 300, 1))


def _queue_hole(folder: Path) -> None:
    """The pages of the middle of a queue never reached the disk."""
    files = sorted((folder / "consumequeue" / "TopicA" / "1").iterdir())
    overwrite(files[-2], 0, bytes(QUEUE_SIZE))


def _queue_short(folder: Path) -> None:
    files = sorted((folder / "consumequeue" / "TopicA" / "1").iterdir())
    os.truncate(files[-1], 30)


def _not_ours(folder: Path) -> None:
    (folder / "commitlog" / "notes.txt").write_text("x")
    (folder / "consumequeue" / "TopicA" / "x").mkdir()
    (folder / "index" / "lost+found").mkdir()


DAMAGES = [
    _remove("consumequeue"),
    _remove("consumequeue/TopicA/1"),
    _remove("index"),
    _remove("consumequeue", "index"),
    _write_checkpoint(b""),
    _write_checkpoint(b"\xff" * 4096),
    _write_checkpoint(b"\x7f" * 4096),
    _write_checkpoint(b"short"),
    _garbage_tail,
    _empty_last_file,
    _zero_file_ahead,
    _short_last_file,
    _queue_ahead,
    _queue_hole,
    _queue_short,
    _not_ours,
]


@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_that_loses_nothing(
    tmp_path: Path, folder: Path, damage: Callable[[Path], None], power_lost: bool
) -> None:
    root = killed(folder, tmp_path / "copy", power_lost=power_lost)
    damage(root)
    check(root)


def test_queues_are_rebuilt_whole_though_recovery_starts_late(folder: Path) -> None:
    """Recovery starts at the last file by the checkpoint; a missing queue needs the first one."""
    checkpoint = Checkpoint(REAL, folder / "checkpoint")
    checkpoint.load(START_MS)
    checkpoint.physic = checkpoint.logics = START_MS + 1_000_000
    checkpoint.save(checkpoint.content())
    shutil.rmtree(folder / "consumequeue" / "TopicA" / "2")
    with loaded(small_config(folder), Clock(START_MS + 10_000_000)) as store:
        assert store.recovery.start == int(log_files(folder)[-1].name)
        assert store.recovery.rebuilt_queues == 1
    (folder / "abort").write_bytes(b"")
    check(folder)


def test_damage_in_the_middle_ends_the_log_there(folder: Path) -> None:
    records = Rebuild(folder).records
    victim = records[100]
    path = log_files(folder)[victim.commit_log_offset // LOG_SIZE]
    overwrite(path, victim.commit_log_offset % LOG_SIZE + 120, b"\0")
    check(folder, count=100, move_damaged_log_aside=True)


def test_old_records_do_not_come_back_behind_new_ones(folder: Path) -> None:
    """New records of the same size end exactly where an old one begins."""
    victim = Rebuild(folder).records[COUNT - 6]
    path = log_files(folder)[-1]
    overwrite(path, victim.commit_log_offset % LOG_SIZE + 120, b"\0")
    config = small_config(folder, move_damaged_log_aside=True)
    with loaded(config, Clock(START_MS + 10_000_000)) as store:
        assert store.writer.append(message(COUNT - 6, queue_id=0)).physical_offset == victim.commit_log_offset
    check(folder, count=COUNT - 5)


def test_a_log_that_is_gone_is_damage(folder: Path) -> None:
    """Its disk may not be mounted: queues and offsets must be there when it is."""
    (folder / "commitlog").rename(folder / "away")
    with pytest.raises(StoreDamaged) as refused, loaded(small_config(folder)):
        pytest.fail("started")
    text = (
        f"{folder}/commitlog: there is no commit log, but consume queues have {COUNT} entries. If the folder"
    )
    assert str(refused.value).startswith(text)
    with contextlib.suppress(FileNotFoundError):
        (folder / "commitlog").rmdir()
    (folder / "away").rename(folder / "commitlog")
    check(folder, count=COUNT)


def test_without_log_and_queues_a_store_begins_anew(folder: Path) -> None:
    shutil.rmtree(folder / "commitlog")
    shutil.rmtree(folder / "consumequeue")
    with loaded(small_config(folder)) as store:
        assert store.topics() == []
        assert store.writer.append(message()).queue_offset == 0


def test_first_files_gone_raise_the_minimum(folder: Path) -> None:
    for path in log_files(folder)[:2]:
        path.unlink()
    first = int(log_files(folder)[0].name)
    kept = [record.queue_offset for record in Rebuild(folder).records if record.queue_id == 0]
    with loaded(small_config(folder)) as store:
        assert store.commit_log_min_offset == first
        assert store.search.min_offset("TopicA", 0) == kept[0]
        assert numbers(store, "TopicA", 0) == [3 * offset for offset in kept]


def test_first_files_and_queues_gone_fills_with_fillers(folder: Path) -> None:
    for path in log_files(folder)[:2]:
        path.unlink()
    shutil.rmtree(folder / "consumequeue")
    kept = [record.queue_offset for record in Rebuild(folder).records if record.queue_id == 0]
    with loaded(small_config(folder)) as store:
        assert numbers(store, "TopicA", 0) == [3 * offset for offset in kept]
        queue = sorted((folder / "consumequeue" / "TopicA" / "0").iterdir())[0]
        before = (kept[0] * ENTRY.size - int(queue.name)) // ENTRY.size
        assert before > 0
        assert queue.read_bytes()[: before * ENTRY.size] == ENTRY.pack(0, 0x7FFFFFFF, 0) * before
    with loaded(small_config(folder)) as store:
        assert store.search.min_offset("TopicA", 0) == kept[0]


async def test_a_topic_created_again_starts_at_zero(folder: Path) -> None:
    with loaded(small_config(folder)) as store:
        assert await store.retention.delete_topic("TopicA") == 3
        assert not (folder / "consumequeue" / "TopicA").exists()
        for number in range(5):
            assert store.writer.append(message(number)).queue_offset == number
    shutil.rmtree(folder / "consumequeue")
    with loaded(small_config(folder)) as store:
        assert numbers(store, "TopicA", 0) == [0, 1, 2, 3, 4]


def test_a_missing_file_in_the_middle_is_named(folder: Path) -> None:
    log_files(folder)[1].unlink()
    with pytest.raises(StoreDamaged, match=f"{LOG_SIZE:020d} is missing"), loaded(small_config(folder)):
        pass


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mapped_file_size_commit_log": 4096}, "mappedFileSizeCommitLog"),
        ({"mapped_file_size_consume_queue": 100}, "mappedFileSizeConsumeQueue"),
        ({"max_index_num": 77}, "maxIndexNum"),
    ],
)
def test_other_sizes_are_refused_by_name(folder: Path, settings: dict[str, int], text: str) -> None:
    with pytest.raises(StoreSizeMismatch, match=text), loaded(small_config(folder, **settings)):
        pass


def test_the_log_size_of_the_files_is_adopted(folder: Path) -> None:
    check_settings = {"mapped_file_size_commit_log": None}
    with loaded(small_config(folder, **check_settings)) as store:
        assert store.writer.append(message(COUNT)).queue_offset == COUNT // 3
    assert {path.stat().st_size for path in log_files(folder)} == {LOG_SIZE}


@pytest.mark.parametrize("clean", [False, True])
def test_after_a_kill_only_the_end_is_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    """Pages of a killed process are all there: records that queues know before the end are not read."""
    monkeypatch.setattr("rmqcli.broker.store.recovery_start.CHECKED_BYTES", 5_000)
    if clean:
        (folder / "abort").unlink()
    with loaded(small_config(folder)) as store:
        assert (
            store.commit_log_max_offset - 5_000 < store.recovery.start < store.commit_log_max_offset - 4_000
        )
        assert 0 < store.recovery.records < COUNT / 5
        assert numbers(store, "TopicA", 1) == list(range(1, COUNT, 3))


def test_a_wrong_unit_does_not_choose_where_to_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.broker.store.recovery_start.CHECKED_BYTES", 5_000)
    queues = [path for path in sorted((folder / "consumequeue" / "TopicA").rglob("0*")) if path.is_file()]
    for path in queues:
        data = path.read_bytes()
        units = [ENTRY.unpack_from(data, position) for position in range(0, len(data), ENTRY.size)]
        moved = [(offset + 3 if size else offset, size, code) for offset, size, code in units]
        path.write_bytes(b"".join(ENTRY.pack(*unit) for unit in moved))
    with loaded(small_config(folder)) as store:
        assert store.recovery.start == 0
        assert store.recovery.records == COUNT


def test_after_a_power_loss_the_checkpoint_decides(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.store.recovery_start.CHECKED_BYTES", 5_000)
    with loaded(small_config(killed(folder, tmp_path / "lost", power_lost=True))) as store:
        assert (store.recovery.start, store.recovery.records) == (0, COUNT)


def test_a_long_log_is_not_read_whole_for_the_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.broker.store.recovery.INDEX_CATCH_UP", LOG_SIZE)
    shutil.rmtree(folder / "index")
    with loaded(small_config(folder)) as store:
        assert store.query("TopicA", f"k{COUNT - 1}", 9, 0, 1 << 50).views
        assert not store.query("TopicA", "k0", 9, 0, 1 << 50).views


def test_queues_that_end_inside_a_record_are_rebuilt(folder: Path) -> None:
    """A clean stop, but the last units point nowhere."""
    (folder / "abort").unlink()
    for queue_id in range(3):
        last = sorted((folder / "consumequeue" / "TopicA" / str(queue_id)).iterdir())[-1]
        unit = (COUNT // 3 - 1) * ENTRY.size - int(last.name)
        offset, size, code = ENTRY.unpack_from(last.read_bytes(), unit)
        overwrite(last, unit, ENTRY.pack(offset, size - 1, code))
    check(folder)


def test_topics_of_transactions_leave_no_units(tmp_path: Path) -> None:
    with loaded(small_config(tmp_path)) as store:
        for number, flag in enumerate((4, 12, 8, 0)):
            store.writer.append(message(number, sys_flag=flag))
    shutil.rmtree(tmp_path / "consumequeue")
    with loaded(small_config(tmp_path)) as store:
        assert numbers(store, "TopicA", 0) == [2, 3]
        assert [len(store.query("TopicA", f"k{n}", 9, 0, 1 << 50).views) for n in range(4)] == [1, 0, 1, 1]


def _flipped(whole: bytes) -> bytes:
    """With a bit of ours that is another."""
    (at, *_) = (at for at in range(24, len(whole)) if whole[at])
    return whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :]


@pytest.mark.parametrize("damage", [lambda _: b"", lambda whole: whole[:100], _flipped])
def test_a_checkpoint_that_cannot_be_read_is_written_again(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    with loaded(small_config(tmp_path)) as store:
        store.writer.append(message(0))
        store._checkpoint.log_offset = 0
        store._checkpoint.save(store._checkpoint.content())
    path = tmp_path / "checkpoint"
    path.write_bytes(damage(path.read_bytes()))
    with loaded(small_config(tmp_path)):
        written = path.read_bytes()
    assert decode_checkpoint(written) is not None
    assert decode_safe_point(written) is not None
