"""Queue entries that lead into given parts of a commit log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from codec.core.agreement import entries_inside, written_entries
from codec.store.consume_queue import ENTRY
from rmqcli.store.read.consume_queue import Queue, QueueEntry, entry_at
from rmqcli.store.read.peek import without_last_hole


class Places:
    """Parts [begin, end) of a commit log, which do not overlap."""

    def __init__(self, parts: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(parts)
        self.begins = [begin for begin, _ in ordered]
        self.ends = [end for _, end in ordered]

    def __contains__(self, offset: int) -> bool:
        number = bisect_right(self.begins, offset) - 1
        return number >= 0 and offset < self.ends[number]


def entries_into(queue: Queue, places: Places) -> Iterator[QueueEntry]:
    """Yield the entries of a queue that lead there, fillers excluded; one of size 0 ends the queue."""
    for file in queue.files.files:
        data = without_last_hole(file, ENTRY.size)
        written = written_entries(data)
        for number in entries_inside(data, written, places.begins, places.ends):
            yield entry_at(file, data, number)
        if written < file.size // ENTRY.size:
            return
