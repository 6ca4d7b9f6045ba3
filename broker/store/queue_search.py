"""Searches a consume queue by commit-log offset, and for the last address of its extension.

Fillers at the begin of a queue are before all records. Those between entries stand for lost records, and
count as the entry before them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from broker.store.consume_queue_ext import Require
from codec.store.consume_queue import ENTRY, ENTRY_SIZE, FILLER, FILLER_SIZE
from codec.store.consume_queue_ext import is_address

if TYPE_CHECKING:
    from broker.store.consume_queue import ConsumeQueue

FILLERS_AT_ONCE = 1024
"""Filler entries that a search looks at together."""

_walk = ENTRY.struct.iter_unpack


def first_entry_at(queue: ConsumeQueue, physical_offset: int, require: Require | None) -> int:
    """See `ConsumeQueue.first_at`."""
    begin = _behind_first_fillers(queue, require)

    def offset_of(queue_offset: int) -> int:
        end, count = queue_offset + 1, 1
        while end > begin:
            entries = _before(queue, end, min(count, end - begin), require)
            found = [offset for offset, size, _ in _walk(entries) if size != FILLER_SIZE]
            if found:
                return int(found[-1])
            end, count = end - len(entries) // ENTRY_SIZE, FILLERS_AT_ONCE
        return -1

    return begin + bisect_left(range(begin, queue.next_offset), physical_offset, key=offset_of)


def last_address(queue: ConsumeQueue) -> int | None:
    """Address of the last extension entry; the queue may have been without an extension for a while."""
    for number in range(queue.next_offset - 1, queue.segments.start // ENTRY_SIZE - 1, -1):
        code = queue.entry(number)[2]
        if is_address(code):
            return code
    return None


def _behind_first_fillers(queue: ConsumeQueue, require: Require | None) -> int:
    begin, count = queue.segments.start // ENTRY_SIZE, 1
    while begin < queue.next_offset:
        entries = _read(queue, begin, count, require)
        length = len(entries) // ENTRY_SIZE
        if entries != FILLER * length:
            return begin + next(at for at, entry in enumerate(_walk(entries)) if entry[1] != FILLER_SIZE)
        begin, count = begin + length, FILLERS_AT_ONCE
    return queue.next_offset


def _before(queue: ConsumeQueue, end: int, count: int, require: Require | None) -> bytes:
    """At most `count` entries before `end`, those of one file."""
    per_file = queue.segments.size // ENTRY_SIZE
    start = max(end - count, (end - 1) // per_file * per_file)
    return _read(queue, start, end - start, require)


def _read(queue: ConsumeQueue, begin: int, count: int, require: Require | None) -> bytes:
    """At most `count` entries from `begin` on, those of one file."""
    place = queue.place(begin, count)
    if place is None:
        raise IndexError(begin)
    segment, position, length = place
    if require is not None:
        require(segment, position, length, queue.written_in(segment))
    return bytes(segment.part(position, length))
