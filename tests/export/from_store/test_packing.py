"""Parts of a store as tasks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.export import RowFilter
from rmqcli.export.from_store.by_queues import queue_places, scan
from rmqcli.export.from_store.packing import PlacedPart, in_tasks, sized
from rmqcli.export.from_store.parts import parts_of
from rmqcli.export.from_store.queue_check import StoreQueues
from rmqcli.store import CommitLogFiles
from rmqcli.store.repair.rebuild import Shape, build
from tests.codec.samples import make_record
from tests.export.support import java_rows
from tests.support import COMMIT_LOG_FILE_SIZE, JavaStore


def tasks_of(store: Path, rows: RowFilter, size: int) -> list[list[PlacedPart]]:
    places = queue_places(StoreQueues(store, rows)) if rows.topics else None
    return in_tasks(sized(parts_of(store, rows), places), size)


def read(tasks: list[list[PlacedPart]], rows: RowFilter) -> list[int]:
    return [
        offset
        for task in tasks
        for part, places in task
        for batch in scan(part, rows, places)
        for offset in batch["commit_log_offset"].to_pylist()
    ]


@pytest.mark.parametrize(("size", "count"), [(10_000_000, 1), (1_100_000, 2), (524_288, 4), (200_000, 10)])
def test_files_share_a_task_or_are_cut(
    copy_java_store: Callable[[str], JavaStore], size: int, count: int
) -> None:
    rows = RowFilter()
    store = copy_java_store("store-clean")  # in tmpfs, whoever has read a hole by a mapping has filled it
    found = tasks_of(store.root, rows, size)
    assert len(found) == count
    assert read(found, rows) == [row["commit_log_offset"] for row in java_rows(store)]


@pytest.mark.parametrize("size", [10_000_000, 100_000, 5000])
def test_a_topic_has_tasks_for_its_own_bytes(store_clean: JavaStore, size: int) -> None:
    rows = RowFilter(topics=frozenset({"SeedTags"}))
    found = tasks_of(store_clean.root, rows, size)
    wanted = [row for row in java_rows(store_clean) if row["topic"] == "SeedTags"]
    assert sorted(read(found, rows)) == [row["commit_log_offset"] for row in wanted]
    total = sum(row["store_size"] for row in wanted)
    assert total < COMMIT_LOG_FILE_SIZE < store_clean.commit_logs[-1].stat().st_size * 4
    assert len(found) <= 1 + 2 * total // size


def test_the_hole_of_a_preallocated_file_is_no_task(tmp_path: Path) -> None:
    """The data is cut, not the file; what a broker adds meanwhile is in the last piece."""
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.parent.mkdir()
    data = bytearray()
    while len(data) < 1 << 20:
        data += make_record(body=b"x" * 4000, physical_offset=len(data), queue_offset=len(data) // 4000)
    path.write_bytes(data)
    os.truncate(path, 1 << 30)
    found = tasks_of(tmp_path, RowFilter(), 1 << 18)
    assert 4 <= len(found) <= 5
    assert found[-1][0].part.end == 1 << 30
    assert len(read(found, RowFilter())) == len(data) // len(make_record(body=b"x" * 4000))


def test_many_queues_are_divided_among_tasks(tmp_path: Path) -> None:
    """No two tasks read the same queue file, but for the large queue, whose records are cut."""
    path = tmp_path / "commitlog" / f"{0:020d}"
    path.parent.mkdir()
    data = bytearray()
    places: dict[tuple[int, int], int] = {}
    for number in range(300):
        key = (7, number // 2) if number % 2 else (100 + number // 2 % 50, number // 100)
        places[key] = len(data)
        data += make_record(
            topic=b"Wide", queue_id=key[0], queue_offset=key[1], body=b"x" * 900, physical_offset=len(data)
        )
    path.write_bytes(data)
    build(CommitLogFiles(tmp_path), tmp_path, Shape())
    rows = RowFilter(topics=frozenset({"Wide"}))
    found = tasks_of(tmp_path, rows, 40_000)
    queues = [[file.queue_id for _, own in task if own for file in own.files] for task in found]
    assert sorted(number for some in queues for number in set(some) - {7}) == list(range(100, 150))
    assert 3 <= sum(7 in some for some in queues) <= 5
    assert len(found) <= 2 + 2 * len(data) // 40_000
    keys = {place: key for key, place in places.items()}
    read_keys = [keys[place] for place in read(found, rows)]
    assert sorted(read_keys, key=lambda key: key[0]) == sorted(places)  # each queue in its order
