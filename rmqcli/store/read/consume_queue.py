"""Consume queue files: entries of 20 bytes, whose number in the queue is the queue offset."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from codec.store.consume_queue import ENTRY, FILLER, FILLER_SIZE
from codec.store.file_names import NAME_PATTERN
from codec.store.record import peek_record
from codec.store.record_explain import ExplainedField, explain_fixed
from codec.store.record_layout import MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rmqcli.store.read.files import NamedFile, mapped, offset_files

_RECORDS = frozenset((MAGIC_V1, MAGIC_V2))


class QueueEntry(NamedTuple):
    """A queue entry: its queue offset, its record's commit-log offset and size (bytes), tags code, place."""

    queue_offset: int
    commit_log_offset: int
    size: int
    tags_code: int
    file: NamedFile
    position: int

    @property
    def is_filler(self) -> bool:
        return self.commit_log_offset == 0 and self.size == FILLER_SIZE


def entry_at(file: NamedFile, data: memoryview, number: int) -> QueueEntry:
    position = number * ENTRY.size
    offset, size, tags_code = ENTRY.unpack_from(data, position)
    return QueueEntry((file.base or 0) // ENTRY.size + number, offset, size, tags_code, file, position)


class ConsumeQueueFiles:
    """The files of one queue. FileNotFoundError if there is no such file, or none in the folder."""

    def __init__(self, path: Path, files: list[NamedFile] | None = None) -> None:
        self.files = offset_files(path) if files is None else files

    def entries(self, begin: int = 0, end: int | None = None) -> Iterator[QueueEntry]:
        """Yields the entries of [begin, end) without fillers; one of size 0 ends the queue."""
        for file in self.files:
            first = (file.base or 0) // ENTRY.size
            count = file.size // ENTRY.size
            if first + count <= begin:
                continue
            with mapped(file) as data:
                for number in range(max(begin - first, 0), count):
                    if end is not None and first + number >= end:
                        return
                    entry = entry_at(file, data, number)
                    if entry.size == 0:
                        return
                    if not entry.is_filler:
                        yield entry

    def entry(self, offset: int) -> QueueEntry | None:
        """Returns the entry at a queue offset; None if there is none, or a filler."""
        return next(self.entries(offset, offset + 1), None)

    def bounds(self) -> tuple[int, int]:
        """Returns the first queue offset and the one after the last, else (0, 0). Reads few entries."""
        file = self.files[0]
        with mapped(file) as data:
            # Only leading fillers are skipped: later ones may stand for lost entries.
            begin = (file.base or 0) // ENTRY.size + leading_fillers(data, file.size // ENTRY.size)
        first = next((entry.queue_offset for entry in self.entries(begin)), 0)
        for file in reversed(self.files):
            with mapped(file) as data:
                written = count_written(data, file.size // ENTRY.size)
            if written:
                return first, max(first, (file.base or 0) // ENTRY.size + written)
        return first, first

    def as_written(self) -> list[NamedFile]:
        """Returns the files with their filled sizes, for a queue that a broker keeps writing."""
        end = self.bounds()[1] * ENTRY.size
        filled = [file._replace(size=min(file.size, end - (file.base or 0))) for file in self.files]
        return [file for file in filled if file.size > 0]


def count_written(data: memoryview, count: int) -> int:
    """Returns how many of the first `count` entries are written; the unused rest has size 0."""
    return bisect_left(range(count), True, key=lambda n: ENTRY.unpack_from(data, n * ENTRY.size)[1] == 0)


def leading_fillers(data: memoryview, count: int) -> int:
    """Returns the number of fillers at the start of a file, among its first `count` entries."""
    if count == 0 or not is_filler(data, 0):
        return 0
    # The first n entries are fillers for every n up to some number, and for none above it.
    return bisect_left(range(1, count + 1), True, key=lambda n: bytes(data[: n * ENTRY.size]) != FILLER * n)


def is_filler(data: memoryview, number: int) -> bool:
    """Returns True if an entry, counted from the first of a file, is a filler."""
    offset, size, _ = ENTRY.unpack_from(data, number * ENTRY.size)
    return bool(offset == 0 and size == FILLER_SIZE)


class Queue(NamedTuple):
    """The files of a queue; `topic` and `queue_id` come from its folders, None for a file elsewhere."""

    topic: str | None
    queue_id: int | None
    path: Path
    files: ConsumeQueueFiles

    def as_written(self) -> Queue:
        """Returns the queue as far as it is written, for a queue that a broker keeps writing."""
        return self._replace(files=ConsumeQueueFiles(self.path, self.files.as_written()))

    @property
    def store(self) -> Path | None:
        """The store folder of the queue (STORE/consumequeue/TOPIC/QUEUE); None if it lies elsewhere."""
        path = self.path.resolve()
        topic = (path.parent if path.is_file() else path).parent
        return topic.parent.parent if topic.parent.name == "consumequeue" else None


def queue_folders(path: Path) -> list[Queue]:
    """Returns the queue of a file or folder, or all queues of a topic's folder, of `consumequeue`, or of a
    store folder.

    Raises FileNotFoundError if there is no queue, PermissionError if a folder may not be read.
    """
    root = path / "consumequeue" if (path / "consumequeue").is_dir() else path
    if root.is_dir():
        _require_listable(root)
        for pattern in ("[0-9]*/" + NAME_PATTERN, "*/[0-9]*/" + NAME_PATTERN):
            folders = sorted({file.parent for file in root.glob(pattern)}, key=_by_number)
            if folders:
                return [_queue(folder) for folder in folders]
        if root != path or any((path / name).exists() for name in ("commitlog", "lock", "abort")):
            text = "this store has no consume queue: no message was ever stored, or "
            raise FileNotFoundError(2, text + "`rmq inspect rebuild` restores them", str(path))
    return [_queue(root)]


def queues_of(store: Path) -> list[Queue]:
    """Returns all queues of a store folder; [] if it has none."""
    try:
        return queue_folders(store / "consumequeue")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _require_listable(root: Path) -> None:
    """Raises PermissionError for a folder that may not be read: a glob would skip it."""
    for pattern in ("*/", "*/*/"):
        for folder in (root, *root.glob(pattern)):
            next(folder.iterdir(), None)


def _by_number(folder: Path) -> tuple[str, int, str]:
    return folder.parent.name, int(folder.name) if folder.name.isdigit() else -1, folder.name


def _queue(path: Path) -> Queue:
    _refuse_others(offset_files(path)[0])
    folder = path.resolve().parent if path.is_file() else path.resolve()
    known = folder.name.isdigit()
    topic, queue_id = (folder.parent.name, int(folder.name)) if known else (None, None)
    return Queue(topic, queue_id, path, ConsumeQueueFiles(path))


def _refuse_others(file: NamedFile) -> None:
    """Raises FileNotFoundError for a file that cannot be one of a queue: any bytes can be read as numbers."""
    with mapped(file) as data:
        holds_records = len(data) >= MIN_RECORD_SIZE and peek_record(data).magic in _RECORDS
    if holds_records:
        raise FileNotFoundError(2, "this is a commit log, not a consume queue", str(file.path))
    if file.base is None and file.size % ENTRY.size:
        text = f"not a consume queue: its {file.size:,} bytes are not whole entries of {ENTRY.size}"
        raise FileNotFoundError(2, text, str(file.path))


def explain_entry(entry: QueueEntry) -> list[ExplainedField]:
    return explain_fixed(ENTRY, ENTRY.pack(*entry[1:4]))
