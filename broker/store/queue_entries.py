"""The entries in a file of a consume queue: at a place, and those that recovery finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.store.segment import Segment
from codec.store.consume_queue import ENTRY, ENTRY_SIZE

NOTHING = (0, 0, 0)
"""An entry that was never written."""

_walk = ENTRY.struct.iter_unpack


def entries_at(place: tuple[Segment, int, int] | None) -> Iterator[tuple[int, int, int]]:
    """The entries at a place that `ConsumeQueue.place` returned."""
    if place is None:
        return iter(())
    segment, position, length = place
    return _walk(segment.view[position : position + length])


def found_entries(segment: Segment) -> Iterator[tuple[int, int, int]]:
    """The entries that a file may have held when it was loaded."""
    return _walk(segment.view[: _found_end(segment)])


def has_entries_behind(segments: Iterable[Segment], end: int, sure_until: int) -> bool:
    """True if there are entries behind byte offset `end` of the queue, of records before `sure_until`."""
    for segment in segments:
        position = end - segment.start
        for start, stop in segment.data_ranges(max(position, 0)) if position < segment.size else ():
            first = max(start // ENTRY_SIZE * ENTRY_SIZE, position)
            last = min(-(-stop // ENTRY_SIZE) * ENTRY_SIZE, _found_end(segment))
            for entry in _walk(segment.view[first : max(first, last)]):
                if any(entry) and entry[0] < sure_until:
                    return True
    return False


def _found_end(segment: Segment) -> int:
    return segment.found_size // ENTRY_SIZE * ENTRY_SIZE
