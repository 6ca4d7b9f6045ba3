"""Walks over commit log files: Java's records are found whole, damage is named by file and byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.store.consume_queue import ENTRY, FILLER
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store import CommitLogFiles, ConsumeQueueFiles, DamagedFile, explain_entry, queue_folders
from rmqcli.store.read.commit_log import next_record, require_zeros
from rmqcli.store.read.files import NamedFile, data_extents, mapped, naming_damage
from tests.support import JavaStore


def test_every_record_of_java_is_found(java_store: JavaStore) -> None:
    found = [place.offset for place, _ in CommitLogFiles(java_store.root).records()]
    assert found == [line["phy"] for line in java_store.of_kind("msg")]


@pytest.mark.parametrize(
    "choose", [lambda root: root, lambda root: root / "commitlog"], ids=["store", "folder"]
)
def test_a_store_and_its_commit_log_folder_are_the_same(
    store_clean: JavaStore, choose: Callable[[Path], Path]
) -> None:
    assert [file.base for file in CommitLogFiles(choose(store_clean.root)).files] == [
        0,
        524288,
        1048576,
        1572864,
    ]


def test_records_from_an_offset_on(store_clean: JavaStore) -> None:
    log = CommitLogFiles(store_clean.root)
    everything = [place.offset for place, _ in log.records()]
    assert [place.offset for place, _ in log.records(from_offset=everything[2000])] == everything[2000:]
    assert log.last(7) == everything[-7]


def test_the_first_file_of_a_time(store_clean: JavaStore) -> None:
    log = CommitLogFiles(store_clean.root)
    firsts = [decode_record(file.path.read_bytes()).store_timestamp for file in log.files]
    assert [log.first_file_at(time + 1) for time in firsts] == [0, 1, 2, 3]
    assert log.first_file_at(0) == 0
    assert log.files_in(OffsetRange(begin_time=firsts[2] + 1)) == log.files[2:]
    assert log.files_in(OffsetRange(begin_time=1)) == log.files


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (OffsetRange(), [0, 1, 2, 3]),
        (OffsetRange(begin=524287), [0, 1, 2, 3]),
        (OffsetRange(begin=524288), [1, 2, 3]),
        (OffsetRange(end=1048576), [0, 1]),
        (OffsetRange(begin=600000, end=1048577), [1, 2]),
        (OffsetRange(begin=1 << 40), []),
    ],
)
def test_the_files_of_a_range(store_clean: JavaStore, wanted: OffsetRange, numbers: list[int]) -> None:
    log = CommitLogFiles(store_clean.root)
    assert log.files_in(wanted) == [log.files[number] for number in numbers]
    log.files = [file._replace(base=None) for file in log.files]
    assert log.files_in(wanted) == log.files, "a name that tells no offset"


def test_a_renamed_copy_takes_its_place_from_its_records(store_clean: JavaStore, tmp_path: Path) -> None:
    copy = tmp_path / "copy.bin"
    shutil.copy(store_clean.commit_logs[1], copy)
    assert next(CommitLogFiles(copy).records())[0].offset == 524288


@pytest.mark.parametrize("path", ["", "missing"])
def test_no_commit_log(tmp_path: Path, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        CommitLogFiles(tmp_path / path)


def test_damage_names_file_and_byte(copy_java_store: Callable[[str], JavaStore]) -> None:
    store = copy_java_store("store-clean")
    second = store.of_kind("msg")[1]["phy"]
    with store.commit_logs[0].open("r+b") as file:
        file.seek(second + 4)
        file.write(b"\0\0\0\0")
    found: list[object] = []
    with pytest.raises(CorruptionError, match=rf"{store.commit_logs[0].name}: byte {second}") as caught:
        found.extend(place for place, _ in CommitLogFiles(store.root).records())
    assert caught.value.position == second
    assert len(found) == 1


def test_the_next_record_is_found_from_every_byte(store_clean: JavaStore) -> None:
    offsets = [line["phy"] for line in store_clean.of_kind("msg")][:4]
    file = NamedFile(store_clean.commit_logs[0], 0, 524288)
    with mapped(file) as data:
        for start in range(1, offsets[3]):
            assert next_record(file, data, start) == next(at for at in offsets if at >= start)


def test_a_record_inside_a_body_is_not_taken_for_one(tmp_path: Path, store_clean: JavaStore) -> None:
    """A body may hold a whole record; its commit-log offset gives it away."""
    record = store_clean.commit_log[:722]
    path = tmp_path / "00000000000000000000"
    path.write_bytes(bytes(100) + record)
    file = NamedFile(path, 0, 822)
    with mapped(file) as data:
        assert next_record(file, data, 0) is None
        assert next_record(file._replace(base=-100), data, 0) == 100


def test_the_last_records(store_clean: JavaStore) -> None:
    log = CommitLogFiles(store_clean.root)
    messages = store_clean.of_kind("msg")
    offsets = [line["phy"] for line in messages]
    of_topic = [line["phy"] for line in messages if line["topic"] in ("SeedNormal", "SeedTx")]
    for count in (1, 2, 700, 1500, 3090, 9999):
        assert log.last(count) == offsets[-min(count, len(offsets))]
        assert log.last(count, {"SeedNormal", "SeedTx"}) == of_topic[-min(count, len(of_topic))]
    assert log.last(3, {"no such topic"}) == 0


def test_only_the_files_that_are_needed_are_read_for_the_last(
    copy_java_store: Callable[[str], JavaStore],
) -> None:
    store = copy_java_store("store-clean")
    store.commit_logs[0].write_bytes(b"\xff" * 1000)
    assert CommitLogFiles(store.root).last(5) == store.of_kind("msg")[-5]["phy"]


def test_an_error_on_its_way_does_not_hold_the_file(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000"
    path.write_bytes(bytes(100))
    file = NamedFile(path, 0, 100)
    with pytest.raises(DamagedFile) as caught, naming_damage(file), mapped(file) as data:
        held = data[10:20]
        raise CorruptionError("of this place", 10)
    assert str(caught.value) == f"{path}: byte 10: of this place"
    assert (caught.value.path, caught.value.position, bytes(held)) == (path, 10, bytes(10))


def test_queue_entries_are_those_of_the_dump(java_store: JavaStore) -> None:
    expected: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    for line in java_store.of_kind("consumequeue-file"):
        topic, queue_id, _ = line["path"].split("/")
        expected.setdefault((topic, int(queue_id)), []).extend(tuple(entry) for entry in line["data"])
    found = {
        (queue.topic, queue.queue_id): [tuple(entry[1:4]) for entry in queue.files.entries()]
        for queue in queue_folders(java_store.root)
    }
    assert found == expected


def test_a_range_of_queue_entries(store_clean: JavaStore) -> None:
    queue = ConsumeQueueFiles(store_clean.root / "consumequeue/SeedNormal/0")
    assert queue.bounds() == (0, 375)
    assert [entry.queue_offset for entry in queue.entries(298, 303)] == [298, 299, 300, 301, 302]
    entry = next(queue.entries(300))
    assert [field.value for field in explain_entry(entry)] == list(entry[1:4])
    assert (entry.file.path.name, entry.position) == ("00000000000000006000", 0)


def test_bounds_of_every_queue(java_store: JavaStore) -> None:
    for queue in queue_folders(java_store.root):
        entries = [entry.queue_offset for entry in queue.files.entries()]
        assert queue.files.bounds() == ((entries[0], entries[-1] + 1) if entries else (0, 0))


def test_bounds_of_a_queue_that_starts_late(tmp_path: Path) -> None:
    """Java fills up the first file of a queue that begins in the middle of it."""
    filler, entry = FILLER, ENTRY.pack(500, 100, 7)
    folder = tmp_path / "0"
    folder.mkdir()
    (folder / f"{2000:020d}").write_bytes(filler * 30 + entry * 70)
    (folder / f"{4000:020d}").write_bytes(entry * 10 + bytes(1800))
    queue = ConsumeQueueFiles(folder)
    assert queue.bounds() == (130, 210)
    assert [found.queue_offset for found in queue.entries()] == list(range(130, 210))
    (folder / f"{4000:020d}").write_bytes(bytes(2000))
    assert queue.bounds() == (130, 200)
    (folder / f"{2000:020d}").write_bytes(bytes(2000))
    assert queue.bounds() == (0, 0)


def test_bounds_of_a_queue_with_fillers_in_it(tmp_path: Path) -> None:
    """Salvage puts them in place of lost delayed messages."""
    filler, entry = FILLER, ENTRY.pack(500, 100, 7)
    for first, entries in (
        (0, entry * 4 + filler * 90 + entry * 6),
        (3, filler * 3 + entry * 2 + filler * 95),
    ):
        (tmp_path / f"{0:020d}").write_bytes(entries)
        assert ConsumeQueueFiles(tmp_path).bounds() == (first, 100)


def test_holes_are_not_looked_at(tmp_path: Path) -> None:
    """In a preallocated file of a gigabyte, written bytes are found wherever they lie."""
    path = tmp_path / f"{0:020d}"
    size = 1 << 30
    with path.open("wb") as handle:
        handle.truncate(size)
        handle.write(b"first")
        handle.seek(size // 2)
        handle.write(b"second")
    file = NamedFile(path, 0, size)
    extents = list(data_extents(file, 0, size))
    assert sum(end - begin for begin, end in extents) <= size
    for place in (0, 4, size // 2, size // 2 + 5):
        assert any(begin <= place < end for begin, end in extents)
    assert list(data_extents(file, size // 2 + (1 << 20), size)) in ([], [(size // 2 + (1 << 20), size)])
    with mapped(file) as data:
        with pytest.raises(CorruptionError, match="not zero"):
            require_zeros(file, data, 5)
        require_zeros(file, data, size // 2 + 6)
