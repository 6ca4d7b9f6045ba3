"""A store of many queues: an export lists the folder of a queue once and opens its files a fixed number of
times.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmqcli.export import RowFilter, export_store
from rmqcli.export.from_store import queue_check
from rmqcli.export.from_store.by_queues import queue_places
from rmqcli.export.from_store.packing import in_tasks, sized
from rmqcli.export.from_store.parts import parts_of
from rmqcli.export.from_store.queue_check import StoreQueues
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.files import NamedFile, without_last_hole
from rmqcli.store.read.lock import holding_lock
from rmqcli.store.repair.rebuild import Shape, build
from tests.codec.samples import make_record
from tests.export.support import rows_of

QUEUES = 50
EACH = 4


@pytest.fixture
def wide_store(tmp_path: Path) -> Path:
    """Makes a cleanly stopped store of two topics of 25 queues each, whose records take turns."""
    store = tmp_path / "store"
    data = bytearray()
    for number in range(QUEUES * EACH):
        topic, queue = (b"A", b"B")[number % 2], number % QUEUES // 2
        offset = number // QUEUES
        data += make_record(topic=topic, queue_id=queue, physical_offset=len(data), queue_offset=offset)
    path = store / "commitlog" / f"{0:020d}"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    build(CommitLogFiles(store), store, Shape())
    return store


@contextmanager
def counted(store: Path) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Counts how often each queue file is opened, and the folder of each queue listed."""
    opened: Counter[str] = Counter()
    listed: Counter[str] = Counter()
    queues = (store / "consumequeue").glob("*/*")
    folders = {str(path) for path in queues}
    open_, scandir = os.open, os.scandir

    def opening(path: Any, *arguments: Any, **options: Any) -> int:
        if os.fspath(path).rpartition(os.sep)[0] in folders:
            opened[os.fspath(path)] += 1
        return open_(path, *arguments, **options)

    def listing(path: Any = ".") -> Any:
        if not isinstance(path, int) and os.fspath(path) in folders:
            listed[os.fspath(path)] += 1
        return scandir(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", opening)
        patch.setattr(os, "scandir", listing)
        yield opened, listed


WAYS = {
    "all": (RowFilter(), QUEUES, 1),
    "a topic": (RowFilter(topics=frozenset({"A"})), QUEUES // 2, 2),
    "offsets": (RowFilter(begin=1), QUEUES, 2),
    "a tag": (RowFilter(tags=frozenset({"TagA"})), QUEUES, 2),
}


@pytest.mark.parametrize(("rows", "queues", "most"), WAYS.values(), ids=WAYS)
def test_a_queue_file_is_opened_to_look_and_to_read(
    wide_store: Path, tmp_path: Path, rows: RowFilter, queues: int, most: int
) -> None:
    """An export that walks the log looks at the queue files only once, to count their entries."""
    with counted(wide_store) as (opened, listed):
        export_store(wide_store, tmp_path / "out", rows)
    assert len(opened) == len(listed) == queues
    assert max(opened.values()) <= most
    assert max(listed.values()) == 1
    if not rows.tags:
        assert len(rows_of(tmp_path / "out")) == queues * (EACH - (rows.begin or 0))


def test_a_plan_looks_at_a_queue_file_once(wide_store: Path) -> None:
    rows = RowFilter(topics=frozenset({"A", "B"}))
    with counted(wide_store) as (opened, listed):
        places = queue_places(StoreQueues(wide_store, rows))
        tasks = in_tasks(sized(parts_of(wide_store, rows), places), 1000)
    assert len(tasks) > 1
    assert len(opened) == len(listed) == QUEUES
    assert set(opened.values()) == set(listed.values()) == {1}


def test_a_continued_export_looks_twice_at_most(wide_store: Path, tmp_path: Path) -> None:
    """The queues may belong to topics that were created again."""
    rows = RowFilter(topics=frozenset({"A"}), only_queued=True, broker_name="broker")
    export_store(wide_store, tmp_path / "out", rows)
    with counted(wide_store) as (opened, listed):
        export_store(wide_store, tmp_path / "out", rows, resume=True)
    assert len(opened) == QUEUES // 2
    assert max(opened.values()) <= 3
    assert max(listed.values()) == 1


@pytest.mark.parametrize(
    ("runs_before", "runs_after"),
    [(True, True), (True, False), (False, True)],
    ids=["a broker runs", "it stops", "it starts"],
)
def test_what_a_broker_writes_during_the_look_is_found(
    wide_store: Path, monkeypatch: pytest.MonkeyPatch, runs_before: bool, runs_after: bool
) -> None:
    """A queue that was seen empty gets an entry before a queue that is seen later does."""
    first = wide_store / "consumequeue" / "A" / "0" / f"{0:020d}"
    content = first.read_bytes()
    first.write_bytes(bytes(len(content)))
    abort = wide_store / "abort"
    if runs_before:
        abort.touch()

    def written(file: NamedFile, unit: int) -> bytes:
        if file.path.parts[-3] == "B":
            first.write_bytes(content)
            if runs_after:
                abort.touch()
            else:
                abort.unlink(missing_ok=True)
        return without_last_hole(file, unit)

    monkeypatch.setattr(queue_check, without_last_hole.__name__, written)
    queues = StoreQueues(wide_store, RowFilter(topics=frozenset({"A", "B"})))
    with holding_lock(wide_store):
        assert queues.counts()["A", 0] == 0
        places = queue_places(queues)
    assert places is not None and places.end > 0
    assert first in [one.file.path for one in places.files]
