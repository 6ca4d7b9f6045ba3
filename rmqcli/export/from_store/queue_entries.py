"""Consume queue entries as columns, file by file: the places of a queue's records.

The first and last entries of a file decide whether it is read, so that a stretch of a long log costs only its
own entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from codec.core.hashing import tags_code
from codec.names import SystemTopic
from codec.scan.arrow import BATCH_BYTES, BATCH_ROWS
from codec.scan.entries import entry_columns
from codec.store.consume_queue import ENTRY
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.store.read.consume_queue import Queue, count_written, entry_at, leading_fillers
from rmqcli.store.read.files import NamedFile
from rmqcli.store.read.peek import peeked, without_last_hole

_LOOKS = 3
"""A broker that is writing can make a sound queue look as if it had a hole, once."""


class UnsoundQueue(Exception):
    """A consume queue contradicts itself or the commit log; the message names it."""


class QueueFile(NamedTuple):
    """A file of a queue with the commit-log offsets of its first and last entries, and the bytes of all its
    records, estimated from these two.
    """

    topic: str
    queue_id: int
    file: NamedFile
    first: int
    last: int
    record_bytes: int

    def touches(self, low: int, high: int) -> bool:
        """Return True if records of its entries may start in [low, high)."""
        return self.first < high and self.last >= low

    def may_have(self, begin: int | None, end: int | None) -> bool:
        """Return True if the file has room for queue offsets of [begin, end); None is open."""
        first = (self.file.base or 0) // ENTRY.size
        after = first + self.file.size // ENTRY.size
        return (begin is None or after > begin) and (end is None or first < end)


class Entries(NamedTuple):
    """Commit-log offsets (ascending) and sizes of records, queues, queue offsets; which may be wanted."""

    places: Any
    sizes: Any
    queue_ids: Any
    offsets: Any
    wanted: Any

    def only(self, chosen: Any) -> Entries:
        return Entries(*(column[chosen] for column in self))


def bounded(queue: Queue) -> list[QueueFile]:
    """Return the files of a queue that have entries, in order; UnsoundQueue if they do not ascend."""
    topic, number = queue.topic or "", queue.queue_id or 0
    found: list[QueueFile] = []
    # The last file first: when it has entries, those before it are full, whatever a broker writes meanwhile.
    for file in reversed(queue.files.files):
        count = file.size // ENTRY.size
        with peeked(file) as data:
            first, end = leading_fillers(data, count), count_written(data, count)
            if first >= end:
                continue
            oldest, newest = (entry_at(file, data, at) for at in (first, end - 1))
        total = (end - first) * (oldest.size + newest.size) // 2
        known = QueueFile(topic, number, file, oldest.commit_log_offset, newest.commit_log_offset, total)
        if found and (known.last >= found[-1].first or end < file.size // ENTRY.size):
            raise _unsound(topic, number, file)
        found.append(known)
    return found[::-1]


def last_place(queue: Queue) -> int:
    """Return the commit-log offset of the newest entry; 0 for a queue without entries."""
    for file in reversed(queue.files.files):
        places = _written(queue.topic or "", queue.queue_id or 0, file)[1]
        if len(places):
            return int(places[-1])
    return 0


def entries_in(files: Sequence[QueueFile], rows: RowFilter, low: int, high: int) -> Entries:
    """Return the entries whose records start in [low, high), in the order of the commit log."""
    found = [Entries(*(np.zeros(0, kind) for kind in ("i8", "i4", "i4", "i8", "?")))]
    for file in files:
        if file.touches(low, high):
            entries = _entries(file, rows)
            found.append(entries.only(slice(*np.searchsorted(entries.places, (low, high)).tolist())))
    together = Entries(*map(np.concatenate, zip(*found, strict=True)))
    return together.only(np.argsort(together.places, kind="stable"))


def _entries(queue: QueueFile, rows: RowFilter) -> Entries:
    numbers, places, sizes, codes = _written(queue.topic, queue.queue_id, queue.file)
    offsets = numbers + (queue.file.base or 0) // ENTRY.size
    queue_ids = np.full(len(places), queue.queue_id, np.int32)
    return Entries(places, sizes, queue_ids, offsets, _wanted(queue, offsets, codes, rows))


def _written(topic: str, queue_id: int, file: NamedFile) -> tuple[Any, Any, Any, Any]:
    """Return numbers in the file, commit-log offsets, sizes and tags codes of the written entries."""
    for _ in range(_LOOKS):
        entries = entry_columns(without_last_hole(file, ENTRY.size))
        numbers = np.flatnonzero(entries.used)
        sizes, places, codes = (column[numbers] for column in entries)
        is_one_run = not len(numbers) or numbers[-1] - numbers[0] + 1 == len(numbers)
        if is_one_run and (np.diff(places) > 0).all():
            return numbers, places, sizes, codes
    raise _unsound(topic, queue_id, file)


def _unsound(topic: str, queue_id: int, file: NamedFile) -> UnsoundQueue:
    return UnsoundQueue(f"consume queue {queue_id} of {topic}: {file.path}: has a hole or does not ascend")


def _wanted(queue: QueueFile, offsets: Any, codes: Any, rows: RowFilter) -> Any:
    begin = max(rows.begin or 0, rows.done_of(queue.topic, queue.queue_id))
    wanted = (offsets >= begin) & rows.takes_queue(queue.topic, queue.queue_id)
    if rows.end is not None:
        wanted &= offsets < rows.end
    # In an extended queue a code is an address, which is negative, in the schedule topic a time.
    if rows.tags and queue.topic != SystemTopic.SCHEDULE:
        hashes = [tags_code(tag) for tag in rows.tags]
        wanted &= np.isin(codes, hashes) | (codes < -(1 << 31))
    return wanted


def batches(entries: Entries) -> Iterator[Entries]:
    """Yield runs of entries whose records fit a record batch."""
    ends = np.cumsum(entries.sizes, dtype=np.int64)
    begin = 0
    while begin < len(ends):
        limit = (int(ends[begin - 1]) if begin else 0) + BATCH_BYTES
        end = min(begin + BATCH_ROWS, max(int(np.searchsorted(ends, limit)), begin + 1))
        yield entries.only(slice(begin, end))
        begin = end
