"""Topics of a store by their consume queues, in parts cut anywhere: for several processes and for Spark's
tasks.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rmqcli.export import RowFilter, export_store
from rmqcli.export.from_store.by_queues import divided, queue_places, scan
from rmqcli.export.from_store.parts import Part, parts_of
from rmqcli.export.from_store.queue_check import StoreQueues, UnsoundQueue, bounded, seen_files
from rmqcli.store import CommitLogFiles, Queue, queue_folders
from rmqcli.store.repair.rebuild import Shape, build
from rmqcli.store.workers import Workers
from tests.codec.samples import make_record
from tests.export.support import harm_another_topic, java_rows, rows_of
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]
TOPICS = frozenset({"SeedTags", "SCHEDULE_TOPIC_XXXX"})
RECORDS = 210
ENTRIES = 10
"""Entries of a queue file of `long_store`."""


@pytest.fixture
def long_store(tmp_path: Path) -> Path:
    """Makes 210 records in one log file, alternating between topic A and two queues of topic B; each queue
    has seven files.
    """
    store = tmp_path / "store"
    data = bytearray()
    for number in range(RECORDS):
        topic, queue = ((b"A", 0), (b"B", 0), (b"B", 1))[number % 3]
        data += make_record(topic=topic, queue_id=queue, physical_offset=len(data), queue_offset=number // 3)
    path = store / "commitlog" / f"{0:020d}"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    build(CommitLogFiles(store), store, Shape(queue_file_size=ENTRIES * 20))
    return store


def cut(store: Path, rows: RowFilter, part_size: int) -> Iterator[tuple[Part, list[int]]]:
    """Returns each remaining part with the commit-log offsets of its rows."""
    places = queue_places(StoreQueues(store, rows))
    assert places is not None
    for part, own in divided(parts_of(store, rows, part_size), places):
        batches = scan(part, rows, own)
        yield part, [offset for batch in batches for offset in batch["commit_log_offset"].to_pylist()]


def found(store: Path, rows: RowFilter, part_size: int) -> list[int]:
    return [offset for _, offsets in cut(store, rows, part_size) for offset in offsets]


def expected(store: JavaStore) -> list[int]:
    return [row["commit_log_offset"] for row in java_rows(store) if row["topic"] in TOPICS]


@pytest.mark.parametrize("part_size", [300, 5_000, 150_000])
def test_parts_of_any_size(store_clean: JavaStore, read: list[int], part_size: int) -> None:
    """The last record of the log, behind all trusted entries, is read, too."""
    offsets = expected(store_clean)
    assert found(store_clean.root, RowFilter(topics=TOPICS), part_size) == offsets
    assert len(offsets) <= sum(read) <= len(offsets) + 1


@pytest.mark.parametrize("part_size", [300, 150_000])
def test_the_newest_record_is_of_the_topic(store_clean: JavaStore, part_size: int) -> None:
    newest = java_rows(store_clean)[-1]
    offsets = found(store_clean.root, RowFilter(topics=frozenset({newest["topic"]})), part_size)
    assert offsets[-1] == newest["commit_log_offset"]


def test_parts_without_the_topic_are_none(long_store: Path) -> None:
    """The topic is in the first three tenths of the log; the record of the newest entry, of another topic, is
    read.
    """
    for queue in queue_folders(long_store / "consumequeue" / "B"):
        for file in queue.files.files[2:]:
            file.path.unlink()
    rows = RowFilter(topics=frozenset({"B"}))
    every = parts_of(long_store, rows, 1000)
    found = [part for part, _ in cut(long_store, rows, 1000)]
    assert len(every) > 20
    assert found[-1] == every[-1]
    assert found[:-1] == every[: len(found) - 1]
    assert 0.2 < len(found) / len(every) < 0.4


def test_only_queue_files_of_the_part_are_opened(long_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = os.open

    def noting(path: str, *arguments: Any, **options: Any) -> int:
        opened.append(str(path))
        return real(path, *arguments, **options)

    rows = RowFilter(topics=frozenset({"A"}))
    found = queue_places(StoreQueues(long_store, rows))
    assert found is not None
    assert len(found.files) == 7
    size = (long_store / "commitlog" / f"{0:020d}").stat().st_size
    parts = list(divided(parts_of(long_store, rows, size // 20 + 1), found))
    monkeypatch.setattr(os, "open", noting)
    for part, own in parts:
        list(scan(part, rows, own))
    assert len(parts) == 20
    assert 20 <= sum("consumequeue" in path for path in opened) <= 2 * (20 + 7)


def test_every_record_of_many_queue_files(long_store: Path) -> None:
    log = (long_store / "commitlog" / f"{0:020d}").read_bytes()
    size = len(log) // RECORDS
    for part_size in (size // 2, size * 7, len(log)):
        assert found(long_store, RowFilter(topics=frozenset({"A"})), part_size) == [
            size * number for number in range(0, RECORDS, 3)
        ]


def queue_of(store: Path, topic: str) -> Queue:
    return queue_folders(store / "consumequeue" / topic)[0]


def write_entry(queue: Queue, number: int, place: int | None = None, size: int | None = None) -> None:
    """Changes an entry; a place below 210 is the record of that number."""
    if place is not None and place < RECORDS:
        place = place * (queue.path.parents[2] / "commitlog" / f"{0:020d}").stat().st_size // RECORDS
    path = queue.files.files[number // ENTRIES].path
    data = bytearray(path.read_bytes())
    at = number % ENTRIES * 20
    was_place, was_size = struct.unpack_from(">qi", data, at)
    struct.pack_into(
        ">qi", data, at, was_place if place is None else place, was_size if size is None else size
    )
    path.write_bytes(data)


WRONG = {
    "hole": (25, {"size": 0}, "has a hole"),
    "behind its file": (25, {"place": 1 << 40}, "does not ascend"),
    "before its file": (20, {"place": 7}, "does not ascend"),
    "hole at the end of a file": (29, {"size": 0}, "does not ascend"),
    "behind the log": (69, {"place": 1 << 40}, "points past the end of the commit log"),
    "size": (25, {"size": 9}, "point at other records"),
    "of another topic": (0, {"place": 0}, "point at other records"),
    "of another queue": (25, {"place": 77}, "point at other records"),
}


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(("number", "change", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_entry_costs_no_row_and_doubles_none(
    long_store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    number: int,
    change: dict[str, int],
    said: str,
    jobs: int,
) -> None:
    """The result does not depend on the part that notices it."""
    rows = RowFilter(topics=frozenset({"B"}), queue_id=0)
    sound = found(long_store, rows, 3000)
    write_entry(queue_of(long_store, "B"), number, **change)
    with Workers(jobs) as workers:
        export_store(
            long_store,
            tmp_path / "out",
            replace(rows, check_crc=False),
            workers=workers if jobs > 1 else None,
            part_bytes=3000,
        )
    assert [row["commit_log_offset"] for row in rows_of(tmp_path / "out")] == sound
    assert len(sound) == 70
    assert re.search(f"{said}.*; the whole commit log is read instead", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("begin", "end", "files"),
    [(None, None, 7), (0, 10, 1), (9, 11, 2), (69, None, 1), (70, None, 0), (None, 10, 1), (None, 11, 2)],
)
def test_offsets_choose_the_files_of_a_queue(
    long_store: Path, begin: int | None, end: int | None, files: int
) -> None:
    rows = RowFilter(topics=frozenset({"A"}), begin=begin, end=end)
    places = queue_places(StoreQueues(long_store, rows))
    assert places is not None
    assert len(places.files) == files
    wanted = range(begin or 0, min(end or 70, 70))
    assert len(found(long_store, rows, 3000)) == len(wanted)


def test_files_of_a_queue_that_do_not_ascend(long_store: Path) -> None:
    queue = queue_of(long_store, "A")
    first, second = (file.path for file in queue.files.files[:2])
    second.write_bytes(first.read_bytes())
    with pytest.raises(UnsoundQueue, match="does not ascend"):
        bounded(seen_files([queue])[0])


def test_several_processes_read_only_the_topic(copy_java_store: Copy, tmp_path: Path) -> None:
    """A damaged record of another topic goes unnoticed."""
    store = copy_java_store("store-clean")
    harm_another_topic(store, TOPICS)
    with Workers(2) as workers:
        export_store(store.root, tmp_path / "out", RowFilter(topics=TOPICS), workers=workers)
    assert [row["commit_log_offset"] for row in rows_of(tmp_path / "out")] == expected(store)
