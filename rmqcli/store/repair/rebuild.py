"""Consume queues and index, rebuilt from a commit log.

The commit log must be sound; a damaged one must be salvaged first. When rebuilding in place, everything is
built next to the old folders, which are then renamed, never removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.core.dispatch import Dispatch
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.core.walk import UNWRITTEN, Walk
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.dispatch import DispatchedEntry, index_hashes, queue_entries
from rmqcli.codec.store import consume_queue
from rmqcli.codec.store.consume_queue import ENTRY, FILE_ENTRIES
from rmqcli.codec.store.delay_levels import DEFAULT_LEVELS, DelayLevels
from rmqcli.codec.store.file_names import NAME_PATTERN
from rmqcli.codec.store.index_file import FILE_ITEMS, FILE_SLOTS
from rmqcli.store.read.commit_log import CommitLogFiles, require_zeros
from rmqcli.store.read.consume_queue import batch_topics
from rmqcli.store.read.files import NamedFile, data_extents, mapped, naming_damage
from rmqcli.store.read.index import shape_of_index
from rmqcli.store.read.sequences import messages_in
from rmqcli.store.read.tables import deleted_topics
from rmqcli.store.repair.index_writer import IndexWriter
from rmqcli.store.repair.new_folder import UNFINISHED
from rmqcli.store.repair.queue_writer import BatchQueuesWriter, QueuesWriter

QUEUE_FILE_SIZE = FILE_ENTRIES * ENTRY.size
BATCH_FILE_SIZE = consume_queue.FILE_UNITS * consume_queue.UNIT.size


class Shape(NamedTuple):
    """The layout of the rebuilt files.

    It has the file sizes, index file names to reuse, the delay levels, and the topics with batch queues.
    `unknown` names the broker properties whose values are RocketMQ's defaults because no file shows them.
    `deleted` maps topics to the commit-log offset before which no record belongs to them.
    """

    queue_file_size: int = QUEUE_FILE_SIZE
    index_slots: int = FILE_SLOTS
    index_items: int = FILE_ITEMS
    index_names: dict[int, str] = {}  # noqa: RUF012  never written to
    levels: DelayLevels = DEFAULT_LEVELS
    batch_file_size: int = BATCH_FILE_SIZE
    batch_topics: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    deleted: dict[str, int] = {}  # noqa: RUF012  never written to


_PROPERTIES = {
    "mappedFileSizeConsumeQueue": "queue_file_size",
    "maxHashSlotNum": "index_slots",
    "maxIndexNum": "index_items",
    "mapperFileSizeBatchConsumeQueue": "batch_file_size",
}


def shape_of(store: Path, properties: Mapping[str, str] | None = None) -> Shape:
    """Return the layout of the files of a store. The `properties` of its broker, if given, take precedence.

    Raises ValueError for a property that is not a size.
    """
    topics = batch_topics(store)
    slots, items, names = shape_of_index(store / "index")
    found = {
        "queue_file_size": _usual(store / "consumequeue", ENTRY.size),
        "index_slots": slots,
        "index_items": items,
        "batch_file_size": _usual(store / consume_queue.FOLDER, consume_queue.UNIT.size),
    }
    # Without batch queues their size is not looked up, so that it is not reported as unknown.
    if not topics:
        found["batch_file_size"] = BATCH_FILE_SIZE
    given = {name: value for name, value in (properties or {}).items() if name in _PROPERTIES}
    for name, value in given.items():
        if not value.isdecimal() or not 0 < int(value) < 1 << 31:
            raise ValueError(f"{name}: {value!r} is not a size")
        found[_PROPERTIES[name]] = int(value)
    unknown = tuple(name for name, field in _PROPERTIES.items() if not found[field])
    sizes = (found[field] or Shape._field_defaults[field] for field in _PROPERTIES.values())
    queue_file_size, index_slots, index_items, batch_file_size = sizes
    return Shape(
        queue_file_size,
        index_slots,
        index_items,
        names,
        batch_file_size=batch_file_size,
        batch_topics=topics,
        unknown=unknown,
        deleted=deleted_topics(store),
    )


def _usual(folder: Path, unit: int) -> int:
    """Return the most frequent size of the queue files; 0 if there are none."""
    found = (path.stat().st_size for path in folder.glob(f"*/*/{NAME_PATTERN}"))
    return _most_frequent(size for size in found if size and size % unit == 0)


def _most_frequent(sizes: Iterable[int]) -> int:
    counted = sorted(sizes, reverse=True)
    return max(counted, key=counted.count, default=0)


FOLDERS = ("consumequeue", "index", consume_queue.FOLDER)
_BLOCK_RECORDS = 4096
_EXTENSION = "consumequeue_ext"
_PIECE = 1 << 16


class Rebuilt(NamedTuple):
    """The result of `build`: the number of `records` read, counts of written data, and in `missing` the
    number of fillers written for missing queue offsets.
    """

    records: int
    queues: int
    entries: int
    missing: int
    index_files: int
    index_items: int
    index_completed: int


class Difference(NamedTuple):
    """A file that differs from the built one; `kind` is new, gone or changed (from byte `position` on)."""

    path: str
    kind: str
    position: int | None = None


def build(
    log: CommitLogFiles,
    out: Path,
    shape: Shape,
    progress: Callable[[int], None] = lambda size: None,
    *,
    may_go_back: bool = False,
) -> Rebuilt:
    """Write the consume queues and the index of the log into `out`. Raises DamagedFile at damage.

    `may_go_back` is passed to `QueuesWriter`.
    """
    queues = QueuesWriter(out / "consumequeue", shape.queue_file_size, may_go_back=may_go_back)
    batches = BatchQueuesWriter(out / consume_queue.FOLDER, shape.batch_file_size)
    index = IndexWriter(out / "index", shape.index_slots, shape.index_items, shape.index_names)
    writers = _Writers(queues, batches, index, shape)
    for file in log.files:
        with naming_damage(file), mapped(file) as data:
            walk = Walk(data, -1 if file.base is None else file.base)
            while not walk.is_over:
                before = walk.position
                writers.put_records(walk)
                progress(walk.position - before)
            if walk.ending == UNWRITTEN:
                require_zeros(file, data, walk.position)
    queues.finish()
    batches.finish()
    index.finish()
    missing = sum(queue.missing for queue in queues.queues.values())
    return Rebuilt(
        writers.records,
        len(queues.queues) + len(batches.queues),
        writers.entries,
        missing,
        index.files,
        index.items,
        index.completed_timestamp,
    )


class _Writers:
    def __init__(
        self, queues: QueuesWriter, batches: BatchQueuesWriter, index: IndexWriter, shape: Shape
    ) -> None:
        self.records = self.entries = 0
        self._queues = queues
        self._batches = batches
        self._index = index
        self._levels = shape.levels
        self._batch_topics = shape.batch_topics
        self._deleted = shape.deleted
        self._dispatch = Dispatch(apart=shape.batch_topics | shape.deleted.keys())

    def put_records(self, walk: Walk) -> None:
        """Dispatch the next block of records of a walk."""
        count = walk.count
        is_general = not self._dispatch.add_all(walk, _BLOCK_RECORDS)
        runs, items = self._dispatch.take()
        for run in runs:
            self._queues.put_run(run.topic, run.queue_id, run.first, run.entries)
            self.entries += run.end - run.first
        self._index.put_many(items)
        if is_general:
            record = walk.scan()
            properties = decode_properties(record.properties)
            for entry in queue_entries(record, properties, self._levels):
                self._put(entry, record)
            self._index.put(index_hashes(record, properties), record.physical_offset, record.store_timestamp)
        self.records += walk.count - count

    def _put(self, entry: DispatchedEntry, record: RecordScan) -> None:
        if entry.commit_log_offset < self._deleted.get(entry.topic, 0):
            return
        self.entries += 1
        if entry.topic in self._batch_topics:
            self._batches.put(entry, messages_in(record), record.store_timestamp)
        else:
            self._queues.put(entry)


def compare(store: Path, built: Path) -> list[Difference]:
    """Return the differences between the consume queues and index of a store and the ones built."""
    found: list[Difference] = []
    for folder in FOLDERS:
        old, new = _files(store / folder), _files(built / folder)
        for name in sorted(old.keys() | new.keys()):
            path = f"{folder}/{name}"
            if name not in old or name not in new:
                found.append(Difference(path, "gone" if name in old else "new"))
            else:
                position = _first_difference(old[name], new[name])
                found += [] if position is None else [Difference(path, "changed", position)]
    return found


def _files(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def _first_difference(old: Path, new: Path) -> int | None:
    """Return the first byte that differs, or the end of the shorter file; None if the files are equal.

    Ranges that are holes in both files are not read, because preallocated files are mostly holes.
    """
    files = [NamedFile(path, None, path.stat().st_size) for path in (old, new)]
    least, most = sorted(file.size for file in files)
    extents = sorted(extent for file in files for extent in data_extents(file, 0, least))
    done = 0
    with old.open("rb", buffering=0) as one, new.open("rb", buffering=0) as other:
        for begin, end in extents:
            for at in range(max(begin, done), end, _PIECE):
                size = min(_PIECE, end - at)
                left, right = (os.pread(file.fileno(), size, at) for file in (one, other))
                if left != right:
                    return at + next(i for i in range(size) if left[i] != right[i])
            done = max(done, end)
    return least if least < most else None


def rebuild_in_place(store: Path, built: Path, stamp: str) -> list[Path]:
    """Replace the folders of a store with the ones built, on the same file system.

    Return the new paths of the old folders.

    An extension folder is also renamed, because rebuilt entries contain the tags codes themselves.
    """
    kept: list[Path] = []
    for folder in (*FOLDERS, _EXTENSION):
        old, new = store / folder, built / folder
        if old.exists() and (new.exists() or folder in ("consumequeue", _EXTENSION)):
            kept.append(old.rename(store / f"{folder}.old-{stamp}"))
        if new.exists():
            new.rename(old)
    return kept


@contextmanager
def work_folder(store: Path) -> Iterator[Path]:
    """Yield an empty folder in a locked store and remove it at the end.

    Removes the remains of a killed process first.
    """
    work = store / f"rebuild{UNFINISHED}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
