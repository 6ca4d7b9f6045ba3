"""The entries in files of a consume queue: those in a given range, and those that recovery finds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rmqcli.broker.store.consume_queue_ext import Require
from rmqcli.broker.store.segment import Segment
from rmqcli.codec.store.consume_queue import ENTRY, ENTRY_SIZE, FILLER, FILLER_SIZE, is_address

if TYPE_CHECKING:
    from rmqcli.broker.store.consume_queue import ConsumeQueue


NOTHING = (0, 0, 0)
"""An entry that was never written."""

_walk = ENTRY.struct.iter_unpack


def entries_at(place: tuple[Segment, int, int] | None) -> Iterator[tuple[int, int, int]]:
    """Return the entries in the range that `ConsumeQueue.place` returned."""
    if place is None:
        return iter(())
    segment, position, length = place
    return _walk(segment.view[position : position + length])


def found_entries(segment: Segment) -> Iterator[tuple[int, int, int]]:
    """Return the entries that a file may have held when it was loaded."""
    return _walk(segment.part(0, _found_end(segment)))


def first_record(segments: Iterable[Segment]) -> int:
    """See `ConsumeQueue.first_record`."""
    for segment in segments:
        for offset, size, _ in found_entries(segment):
            if size != FILLER_SIZE:
                return offset if size > 0 else -1
    return -1


def valid_end(segments: Iterable[Segment], start: int) -> tuple[int, int]:
    """Return the byte offset after the valid entries of some files, and the end of the last record in
    them."""
    end, reached = start, 0
    for segment in segments:
        end = segment.start
        for offset, size, _ in found_entries(segment):
            if size != FILLER_SIZE:
                if offset < reached or size <= 0:
                    break
                reached = offset + size
            end += ENTRY_SIZE
        if end != segment.end:
            break
    return end, reached


def trusted_end(segments: Sequence[Segment], physical_start: int) -> int:
    """Return the byte offset after the whole entries of records before `physical_start`."""
    end, last = segments[0].start if segments else 0, -1
    for segment in reversed(segments):
        offset, size, _ = next(found_entries(segment), NOTHING)
        if size == FILLER_SIZE or (size > 0 and 0 <= offset < physical_start):
            end = segment.start
            for offset, size, _ in found_entries(segment):
                if size != FILLER_SIZE and not (size > 0 and last < offset < physical_start):
                    break
                last = max(last, offset if size != FILLER_SIZE else -1)
                end += ENTRY_SIZE
            break
    return end


def has_entries_behind(segments: Iterable[Segment], end: int, sure_until: int) -> bool:
    """Return True if there are entries, of records before `sure_until`, after byte offset `end` of the
    queue."""
    for segment in segments:
        position = end - segment.start
        for start, stop in segment.data_ranges(max(position, 0)) if position < segment.size else ():
            first = max(start // ENTRY_SIZE * ENTRY_SIZE, position)
            last = min(-(-stop // ENTRY_SIZE) * ENTRY_SIZE, _found_end(segment))
            part = bytes(segment.part(first, max(last - first, 0)))
            # The usual case. A walk over the zeros of every queue would take seconds of a start with 100,000.
            if part.count(0) == len(part):
                continue
            if any(any(entry) and entry[0] < sure_until for entry in _walk(part)):
                return True
    return False


def _found_end(segment: Segment) -> int:
    """Return the position after all entries. The last one may end in a hole, because its tags code may be
    0."""
    return min(segment.found_size // ENTRY_SIZE, -(-segment.data_end // ENTRY_SIZE)) * ENTRY_SIZE


# Searches a consume queue by commit-log offset, and for the last address of its extension.
#
# Fillers at the beginning of a queue are before all records. Those between entries stand for lost records,
# and count as the entry before them.

FILLERS_AT_ONCE = 1024
"""Entries that a search reads at once after it met a filler entry."""


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
    """Return the address of the last extension entry. Later entries have none if the extension was turned off
    for a while."""
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
    """Return at most `count` entries before `end`, from one file."""
    per_file = queue.segments.size // ENTRY_SIZE
    start = max(end - count, (end - 1) // per_file * per_file)
    return _read(queue, start, end - start, require)


def _read(queue: ConsumeQueue, begin: int, count: int, require: Require | None) -> bytes:
    """Return at most `count` entries from `begin` on, from one file."""
    place = queue.place(begin, count)
    if place is None:
        raise IndexError(begin)
    segment, position, length = place
    if require is not None:
        require(segment, position, length, queue.written_in(segment))
    return bytes(segment.part(position, length))
