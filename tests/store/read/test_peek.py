"""Looks at few bytes of files, against mappings of the same files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.codec.store.file_names import NAME_PATTERN, file_name
from rmqcli.store import queue_folders
from rmqcli.store.read import consume_queue
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, QueueLook, queues_of
from rmqcli.store.read.files import NamedFile, mapped, peeked, without_last_hole
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.stats.overview import Overview, overview
from tests.seeds import times
from tests.support import JavaStore

_LENGTH = 1 << 16
_PLACES = st.integers(0, _LENGTH)


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@settings(max_examples=times(10), deadline=None)
@given(
    written=st.lists(st.tuples(_PLACES, st.binary(min_size=1, max_size=50)), max_size=4),
    parts=st.lists(st.tuples(_PLACES, st.integers(0, 9000)), min_size=1, max_size=20),
    size=_PLACES,
)
def test_any_parts_of_a_file_with_holes(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[tuple[int, bytes]],
    parts: list[tuple[int, int]],
    size: int,
) -> None:
    path = tmp_path_factory.mktemp("sparse") / "file"
    with path.open("wb") as handle:
        for position, data in written:
            handle.seek(position)
            handle.write(data)
        handle.truncate(_LENGTH)
    file = NamedFile(path, 0, size)
    with peeked(file) as few, mapped(file) as whole:
        assert len(few) == len(whole)
        for begin, length in parts:
            assert few[begin : begin + length] == bytes(whole[begin : begin + length])


def test_data_behind_a_hole_in_the_same_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as handle:
        handle.seek(5 * 4096)
        handle.write(b"data")
        handle.truncate(_LENGTH)
    with peeked(NamedFile(path, 0, _LENGTH)) as few:
        assert few[2 * 4096 : 3 * 4096] == bytes(4096)
        assert few[3 * 4096 : 5 * 4096 + 4] == bytes(2 * 4096) + b"data"


@pytest.mark.parametrize(("length", "unit", "read"), [(4092, 20, 4100), (4092, 1, 4096), (8192, 20, 8200)])
def test_a_file_up_to_its_last_hole(tmp_path: Path, length: int, unit: int, read: int) -> None:
    """The last unit ends in zeros, of which a sparse copy makes a hole."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * length)
    os.truncate(path, _LENGTH)
    assert without_last_hole(NamedFile(path, 0, _LENGTH), unit) == b"x" * length + bytes(read - length)
    assert without_last_hole(NamedFile(path, 0, 50), unit) == b"x" * 50


def test_the_overview_by_looks_and_by_mappings(
    java_store: JavaStore, store_five: JavaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> list[Overview]:
        found = [overview(StoreFolder(store)) for store in (java_store.root, store_five.root)]
        # In tmpfs, a mapping that is read uses pages for the holes.
        return [
            one._replace(disk=(0, 0, 0), folders=[each._replace(used=0) for each in one.folders])
            for one in found
        ]

    by_looks = shown()
    monkeypatch.setattr(consume_queue, "peeked", mapped)
    assert shown() == by_looks


def test_the_queues_and_sizes_of_every_folder(java_store: JavaStore) -> None:
    root = java_store.root / "consumequeue"
    folders = {path.parent for path in root.glob("*/[0-9]*/" + NAME_PATTERN)}
    assert {queue.path for queue in queue_folders(java_store.root)} == folders
    for folder in overview(StoreFolder(java_store.root)).folders:
        paths = [path for path in (java_store.root / folder.name).rglob("*") if path.is_file()]
        states = [path.stat() for path in paths]
        assert folder[1:3] == (len(states), sum(state.st_size for state in states))


def test_queues_behind_links_and_of_chosen_topics(tmp_path: Path) -> None:
    for name in ("consumequeue/A/0", "consumequeue/B/1", "consumequeue/B/x", "elsewhere/C/7"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / file_name(0)).write_bytes(ENTRY.pack(0, 100, 0))
    (tmp_path / "consumequeue/A/5").symlink_to(tmp_path / "elsewhere/C/7")
    (tmp_path / "consumequeue/L").symlink_to(tmp_path / "elsewhere/C")
    found = [(queue.topic, queue.queue_id, queue.path.parent.name) for queue in queues_of(tmp_path)]
    assert found == [("A", 0, "A"), ("C", 7, "A"), ("B", 1, "B"), ("C", 7, "L")]
    chosen = queues_of(tmp_path, ["B", "no such topic"])
    assert [(queue.topic, queue.queue_id) for queue in chosen] == [("B", 1)]


def test_one_file_is_open_at_a_time(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / file_name(number * 2000)).write_bytes(ENTRY.pack(1, 100, 0) * 100)
    before = _descriptors()
    with QueueLook(ConsumeQueueFiles(tmp_path).files) as look:
        for offset in range(0, 2000, 50):
            assert look.entry(offset) is not None
            assert _descriptors() == before + 1
    assert _descriptors() == before
