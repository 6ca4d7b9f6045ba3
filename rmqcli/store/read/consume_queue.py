"""Consume-queue files: entries of 20 bytes, numbered by their queue offset."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from string import digits
from typing import NamedTuple, Self

from rmqcli.codec.records.reading import ExplainedField, explain_fixed, peek_record
from rmqcli.codec.store.consume_queue import BATCH, ENTRY, FILLER, FILLER_SIZE, FOLDER, QUEUE_TYPE, UNIT
from rmqcli.codec.store.record_layout import MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rmqcli.store.read.files import (
    DamagedFile,
    NamedFile,
    Peek,
    Sliced,
    is_offset_file,
    mapped,
    named_files,
    offset_files,
    peeked,
)
from rmqcli.store.read.tables import Read, topics

_RECORDS = frozenset((MAGIC_V1, MAGIC_V2))
_QUEUES = "consumequeue"


class QueueEntry(NamedTuple):
    """A queue entry: its queue offset, the commit-log offset and size (bytes) of its record, its tags code,
    and its location.
    """

    queue_offset: int
    commit_log_offset: int
    size: int
    tags_code: int
    file: NamedFile
    position: int

    @property
    def is_filler(self) -> bool:
        return self.commit_log_offset == 0 and self.size == FILLER_SIZE


def entry_at(file: NamedFile, data: Sliced, number: int) -> QueueEntry:
    first = (file.base or 0) // ENTRY.size
    return QueueEntry(first + number, *_fields(data, number), file, number * ENTRY.size)


class ConsumeQueueFiles:
    """The files of one queue. Raises FileNotFoundError if there is no such file, or none in the folder."""

    __slots__ = ("files",)

    def __init__(self, path: Path, files: list[NamedFile] | None = None) -> None:
        self.files = offset_files(path) if files is None else files

    def entries(self, begin: int = 0, end: int | None = None) -> Iterator[QueueEntry]:
        """Yield the entries of [begin, end) without fillers; one of size 0 ends the queue."""
        yield from _entries(self.files, mapped, begin, end)

    def entry(self, offset: int) -> QueueEntry | None:
        """Return the entry at a queue offset; None if there is no entry or only a filler."""
        with QueueLook(self.files) as look:
            return look.entry(offset)

    def bounds(self) -> tuple[int, int]:
        """Return the first queue offset and the one after the last, or (0, 0). Reads few entries."""
        with QueueLook(self.files) as look:
            return look.bounds()

    def as_written(self) -> list[NamedFile]:
        """Return the files with their filled sizes, for a queue that a broker is still writing."""
        end = self.bounds()[1] * ENTRY.size
        filled = [file._replace(size=min(file.size, end - (file.base or 0))) for file in self.files]
        return [file for file in filled if file.size > 0]


def _entries(
    files: list[NamedFile],
    opened: Callable[[NamedFile], AbstractContextManager[Sliced]],
    begin: int,
    end: int | None,
) -> Iterator[QueueEntry]:
    for file in files:
        first = (file.base or 0) // ENTRY.size
        count = file.size // ENTRY.size
        if first + count <= begin:
            continue
        with opened(file) as data:
            for number in range(max(begin - first, 0), count):
                if end is not None and first + number >= end:
                    return
                entry = entry_at(file, data, number)
                if entry.size == 0:
                    return
                if not entry.is_filler:
                    yield entry


class QueueLook:
    """Reads a few entries of one queue; a context manager that keeps only the last file it read open."""

    def __init__(self, files: list[NamedFile]) -> None:
        self._files = files
        self._stack = ExitStack()
        self._open: tuple[NamedFile, Peek] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def _peeked(self, file: NamedFile) -> Iterator[Peek]:
        if self._open is None or self._open[0] is not file:
            self._stack.close()
            self._open = file, self._stack.enter_context(peeked(file))
        yield self._open[1]

    def entry(self, offset: int) -> QueueEntry | None:
        """Like `ConsumeQueueFiles.entry`."""
        return next(_entries(self._files, self._peeked, offset, offset + 1), None)

    def first(self) -> QueueEntry | None:
        """Return the first entry that is not a filler; None if there is none."""
        if not self._files:
            return None
        file = self._files[0]
        with self._peeked(file) as data:
            # Only leading fillers are skipped: later ones may represent lost entries.
            begin = (file.base or 0) // ENTRY.size + leading_fillers(data, file.size // ENTRY.size)
        return next(_entries(self._files, self._peeked, begin, None), None)

    def bounds(self) -> tuple[int, int]:
        """Like `ConsumeQueueFiles.bounds`."""
        found = self.first()
        first = 0 if found is None else found.queue_offset
        for file in reversed(self._files):
            with self._peeked(file) as data:
                written = count_written(data, file.size // ENTRY.size)
            if written:
                return first, max(first, (file.base or 0) // ENTRY.size + written)
        return first, first


def count_written(data: Sliced, count: int) -> int:
    """Return how many of the first `count` entries are written. The unused rest has size 0."""
    return bisect_left(range(count), True, key=lambda n: _fields(data, n)[1] == 0)


def _fields(data: Sliced, number: int) -> tuple[int, int, int]:
    """Return the commit-log offset, the size and the tags code of an entry."""
    position = number * ENTRY.size
    offset, size, tags_code = ENTRY.unpack(data[position : position + ENTRY.size])
    return offset, size, tags_code


def leading_fillers(data: Sliced, count: int) -> int:
    """Return the number of fillers at the start of a file, among its first `count` entries."""
    if count == 0 or not is_filler(data, 0):
        return 0
    # Bisection works because "the first n entries are fillers" is true up to some n and false above it.
    return bisect_left(range(1, count + 1), True, key=lambda n: bytes(data[: n * ENTRY.size]) != FILLER * n)


def is_filler(data: Sliced, number: int) -> bool:
    """Return True if an entry is a filler; `number` counts from the first of the file."""
    offset, size, _ = _fields(data, number)
    return bool(offset == 0 and size == FILLER_SIZE)


class Queue(NamedTuple):
    """The files of a queue; `topic` and `queue_id` come from its folders, or are None for a file
    elsewhere.
    """

    topic: str | None
    queue_id: int | None
    path: Path
    files: ConsumeQueueFiles

    def as_written(self) -> Queue:
        """Return the queue up to its last written entry, for a queue that a broker is still writing."""
        return self._replace(files=ConsumeQueueFiles(self.path, self.files.as_written()))

    @property
    def store(self) -> Path | None:
        """The store folder of the queue (STORE/consumequeue/TOPIC/QUEUE); None if the queue is elsewhere."""
        path = self.path.resolve()
        topic = (path.parent if path.is_file() else path).parent
        return topic.parent.parent if topic.parent.name == _QUEUES else None


def queue_folders(path: Path) -> list[Queue]:
    """Return the queue of a file or folder, or all queues of the folder of a topic, of `consumequeue`, or of
    a store folder.

    Raises FileNotFoundError if there is no queue, PermissionError if a folder may not be read.
    """
    root = path / _QUEUES if (path / _QUEUES).is_dir() else path
    if root.is_dir():
        found = _found(root)
        if found:
            return found
        if root != path or any((path / name).exists() for name in ("commitlog", "lock", "abort")):
            text = "this store has no consume queue: no message was ever stored, or "
            raise FileNotFoundError(2, text + "`rmq inspect rebuild` restores them", str(path))
    return [_queue(root)]


def queues_of(store: Path, topics: Collection[str] = ()) -> list[Queue]:
    """Return all queues of a store folder, or only those of the given topics; [] if there are none."""
    folder = store / _QUEUES
    found: list[Queue] = []
    for path in [folder / topic for topic in sorted(topics)] if topics else [folder]:
        with suppress(FileNotFoundError, NotADirectoryError):
            found += queue_folders(path)
    return found


def _found(root: Path) -> list[Queue]:
    """Return the queues of the folder of a topic, otherwise of a folder of topics, by topic and number.

    Raises PermissionError for a folder that may not be read.
    """
    of_topic: list[tuple[_Order, Queue]] = []
    of_topics: list[tuple[_Order, Queue]] = []
    names = _names(root)
    for outer in _Listed.of(root).folders:
        inner = _Listed.of(outer)
        topic = _inner(names, outer)
        if inner.files and outer.name[0] in digits:
            of_topic.append((_order(root.name, outer), _of_folder(outer, topic, inner.files)))
        for one in inner.folders if not of_topic else ():
            files = _Listed.of(one).files if one.name[0] in digits else []
            if files:
                of_topics.append((_order(outer.name, one), _of_folder(one, _inner(topic, one), files)))
    found = [queue for _, queue in sorted(of_topic or of_topics, key=itemgetter(0))]
    # The queues of a store are identified by their location, so none of their files is opened.
    for queue in found if _QUEUES not in names else ():
        _refuse_others(queue.files.files[0])
    return found


class _Listed(NamedTuple):
    """The result of one listing of a folder: its folders, and the files that are named by an offset."""

    folders: list[os.DirEntry[str]]
    files: list[os.DirEntry[str]]

    @classmethod
    def of(cls, folder: os.DirEntry[str] | Path) -> _Listed:
        with os.scandir(folder) as items:
            every = list(items)
        return cls([one for one in every if one.is_dir()], [one for one in every if is_offset_file(one)])


_Names = tuple[str, str]
"""The names of a folder and of the one that contains it, with symbolic links resolved."""


def _names(folder: Path) -> _Names:
    real = folder.resolve()
    return real.parent.name, real.name


def _inner(outer: _Names, folder: os.DirEntry[str]) -> _Names:
    return _names(Path(folder.path)) if folder.is_symlink() else (outer[1], folder.name)


_Order = tuple[str, int, str]


def _order(topic: str, folder: os.DirEntry[str]) -> _Order:
    return topic, int(folder.name) if folder.name.isdigit() else -1, folder.name


def _of_folder(folder: os.DirEntry[str], names: _Names, files: list[os.DirEntry[str]]) -> Queue:
    path = Path(folder.path)
    return _of_files(path, names, named_files(path, files))


def _queue(path: Path) -> Queue:
    files = offset_files(path)
    _refuse_others(files[0])
    return _of_files(path, _names(path.parent if path.is_file() else path), files)


def _of_files(path: Path, names: _Names, files: list[NamedFile]) -> Queue:
    """Return the queue of a file or folder; `names` are those of its folder."""
    topic, number = (names[0], int(names[1])) if names[1].isdigit() else (None, None)
    return Queue(topic, number, path, ConsumeQueueFiles(path, files))


def _refuse_others(file: NamedFile) -> None:
    """Raise FileNotFoundError for a file that cannot belong to a queue. Any bytes can be read as entries."""
    with peeked(file) as data:
        holds_records = len(data) >= MIN_RECORD_SIZE and peek_record(data[:MIN_RECORD_SIZE]).magic in _RECORDS
    if holds_records:
        raise FileNotFoundError(2, "this is a commit log, not a consume queue", str(file.path))
    if file.base is None and file.size % ENTRY.size:
        text = f"not a consume queue: its {file.size:,} bytes are not whole entries of {ENTRY.size}"
        raise FileNotFoundError(2, text, str(file.path))


def explain_entry(entry: QueueEntry) -> list[ExplainedField]:
    return explain_fixed(ENTRY, ENTRY.pack(*entry[1:4]))


class BatchUnit(NamedTuple):
    """A unit at byte `position` of `file`; it covers queue offsets [base_offset, end)."""

    file: NamedFile
    position: int
    commit_log_offset: int
    size: int
    store_timestamp: int
    base_offset: int
    batch_size: int

    @property
    def end(self) -> int:
        return self.base_offset + self.batch_size


class BatchQueue(NamedTuple):
    topic: str
    queue_id: int
    files: list[NamedFile]

    def units(self) -> Iterator[BatchUnit]:
        """Yield the units; one of size 0 ends the queue."""
        for file in self.files:
            with mapped(file) as data:
                for position in range(0, file.size - UNIT.size + 1, UNIT.size):
                    offset, size, _, stored, base, count, *_ = UNIT.unpack_from(data, position)
                    if size == 0:
                        return
                    yield BatchUnit(file, position, offset, size, stored, base, count)


def batch_topics(
    store: Path, queues: list[BatchQueue] | None = None, read: Read = Path.read_bytes
) -> frozenset[str]:
    """Return the topics that have batch queues, or whose attributes request them.

    `queues` are the batch queues if the caller has them.
    """
    try:
        known = {
            name
            for name, one in topics(store, read).items()
            if (one.attributes or {}).get(QUEUE_TYPE) == BATCH
        }
    except DamagedFile:
        known = set()
    queues = batch_queues(store) if queues is None else queues
    return frozenset(known | {queue.topic for queue in queues})


def batch_queues(store: Path) -> list[BatchQueue]:
    found = []
    for folder in sorted((store / FOLDER).glob("*/[0-9]*")):
        try:
            found.append(BatchQueue(folder.parent.name, int(folder.name), offset_files(folder)))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
    return found
