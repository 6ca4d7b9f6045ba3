"""One consume queue: 20-byte units (commit-log offset, record size, tags code), addressed by queue offset (Java `ConsumeQueue`).

* A queue whose first unit is not number 0 starts with blank units (0, 0x7FFFFFFF, 0) up to it; they count as below the minimum.
* `put` is idempotent: a unit whose record ends at or before `max_physical_offset` is already there.
* With an extension (consume_queue_ext.py) the tags code of a unit may be the address of what is meant.
* A unit is valid if its offset is >= 0 and its size > 0; recovery keeps what precedes the first invalid one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from broker.store.consume_queue_ext import QueueExtension
from broker.store.segment import Segment
from broker.store.segment_list import SegmentList
from codec.store.consume_queue import ENTRY, FILLER, FILLER_SIZE
from codec.store.consume_queue_ext import Unit, is_address

__all__ = ["UNIT", "ConsumeQueue", "QueueGap"]

UNIT: Final = ENTRY.size
RECOVERED_FILES = 3
_pack = ENTRY.struct.pack_into
_unpack = ENTRY.struct.unpack_from
_walk = ENTRY.struct.iter_unpack


class QueueGap(Exception):
    """A unit was put behind the end of the queue: units between are missing and must be rebuilt."""


class ConsumeQueue:
    """`next_offset` is the queue's max offset; `min_offset` its first readable one.

    `lacks_extension` says after `recover` that addresses lead nowhere: the queue must be rebuilt.
    """

    __slots__ = (
        "_position",
        "_segments",
        "_view",
        "extension",
        "flushed",
        "lacks_extension",
        "max_physical_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        folder: Path,
        file_size: int,
        extension: QueueExtension | None = None,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._segments = SegmentList(folder, file_size // UNIT * UNIT, "mappedFileSizeConsumeQueue")
        self._view = memoryview(b"")
        self._position = self._segments.size
        self.next_offset = 0
        self.min_offset = 0
        self.max_physical_offset = 0
        self.flushed = 0
        self.extension = extension
        self.lacks_extension = False

    @property
    def segments(self) -> SegmentList:
        return self._segments

    def append(self, physical_offset: int, size: int, tags_code: int) -> None:
        """Adds the unit of the next queue offset. The hot path: no checks."""
        position = self._position
        if position == self._segments.size:
            self._roll()
            position = 0
        _pack(self._view, position, physical_offset, size, tags_code)
        self._position = position + UNIT
        self.next_offset += 1
        self.max_physical_offset = physical_offset + size

    def put(
        self, queue_offset: int, physical_offset: int, size: int, tags_code: int, store_timestamp: int
    ) -> None:
        """Adds a unit on dispatch of a stored record, if it is not there yet. QueueGap if units before it are missing."""
        if physical_offset + size <= self.max_physical_offset or queue_offset < self.next_offset:
            return
        if queue_offset > self.next_offset:
            if self._segments.segments:
                raise QueueGap(
                    f"{self.topic}-{self.queue_id}: unit {queue_offset} after {self.next_offset - 1}"
                )
            self.start_at(queue_offset)
        if self.extension is not None:
            tags_code = self.extension.put(tags_code, store_timestamp)
        self.append(physical_offset, size, tags_code)

    def start_at(self, queue_offset: int) -> None:
        """Makes an empty queue begin at `queue_offset`, with blank units before it in its first file."""
        position = queue_offset * UNIT % self._segments.size
        segment = self._segments.create(queue_offset * UNIT - position)
        segment.view[:position] = FILLER * (position // UNIT)
        self._attach(segment, position)
        self.min_offset = queue_offset
        self.flushed = segment.start

    def _roll(self) -> None:
        if self._segments.segments:
            self._segments.segments[-1].release_pages(0, self._segments.size)
        self._attach(self._segments.create(self.next_offset * UNIT), 0)

    def _attach(self, segment: Segment, position: int) -> None:
        self._view = segment.view
        self._position = position
        self.next_offset = (segment.start + position) // UNIT

    def unit(self, queue_offset: int) -> tuple[int, int, int]:
        """Commit-log offset, size, tags code of one existing unit. IndexError if it is not there."""
        segment = self._segments.find(queue_offset * UNIT)
        if segment is None or queue_offset >= self.next_offset:
            raise IndexError(queue_offset)
        return _unpack(segment.view, queue_offset * UNIT - segment.start)

    def units(self, queue_offset: int, count: int) -> Iterator[tuple[int, int, int]]:
        """At most `count` units from `queue_offset` on, never beyond the file that holds it."""
        start = queue_offset * UNIT
        segment = self._segments.find(start)
        if segment is None:
            return iter(())
        end = min(start + count * UNIT, segment.end, self.next_offset * UNIT)
        return _walk(segment.view[start - segment.start : max(end, start) - segment.start])

    def extended(self, code: int) -> Unit | None:
        """What a unit's tags code is the address of; None if it is none, or leads nowhere."""
        return self.extension.get(code) if self.extension is not None and is_address(code) else None

    def next_file_offset(self, queue_offset: int) -> int:
        """Queue offset of the first unit of the next file (Java `rollNextFile`)."""
        per_file = self._segments.size // UNIT
        return queue_offset + per_file - queue_offset % per_file

    def load(self) -> None:
        self._segments.load()
        if self.extension is not None:
            self.extension.load()

    def recover(self) -> None:
        """Finds the end of the valid units, from the third-last file on, and zeroes what follows."""
        segments = self._segments.segments
        self.min_offset = self._segments.start // UNIT
        end = self._segments.start
        for segment in segments[-RECOVERED_FILES:]:
            end = segment.start
            for offset, size, _ in _walk(segment.view):
                if offset < 0 or size <= 0:
                    break
                end += UNIT
                self.max_physical_offset = offset + size if size != FILLER_SIZE else self.max_physical_offset
            if end != segment.end:
                break
        self._end_at(end)

    def truncate(self, physical_end: int) -> None:
        """Removes the units of records at or after `physical_end` (Java `truncateDirtyLogicFiles`)."""
        if self.max_physical_offset <= physical_end:
            return
        self.max_physical_offset = 0
        first = self._segments.start // UNIT
        keep = self.first_at(physical_end)
        self._end_at(keep * UNIT)
        while self._segments.segments and self._segments.segments[-1].start == keep * UNIT:
            self._segments.segments.pop().destroy()
        if keep > first:
            offset, size, _ = self.unit(keep - 1)
            self.max_physical_offset = offset + size if size != FILLER_SIZE else 0
        self._end_at(keep * UNIT)

    def _offset_of(self, queue_offset: int) -> int:
        offset, size, _ = self.unit(queue_offset)
        return -1 if size == FILLER_SIZE else offset

    def _end_at(self, end: int) -> None:
        self._segments.cut(end)
        self.next_offset = end // UNIT
        self.flushed = end
        segment = self._segments.find(end)
        if segment is None:
            self._view, self._position = memoryview(b""), self._segments.size
        else:
            self._view, self._position = segment.view, end - segment.start
        if self.extension is not None:
            self.lacks_extension = not self.extension.end_behind(self._last_address())

    def _last_address(self) -> int | None:
        """Where the last unit's extension is; the queue may have been without one for a while."""
        for number in range(self.next_offset - 1, self._segments.start // UNIT - 1, -1):
            code = self.unit(number)[2]
            if is_address(code):
                return code
        return None

    def first_at(self, physical_offset: int) -> int:
        """Queue offset of the first unit whose record begins at or after `physical_offset`; the queue's end if none."""
        first = self._segments.start // UNIT
        return first + bisect_left(range(first, self.next_offset), physical_offset, key=self._offset_of)

    def correct_min(self, physical_min: int) -> None:
        """Moves the minimum to the first unit whose record still exists."""
        first = self._segments.start // UNIT
        self.min_offset = first + bisect_left(
            range(first, self.next_offset), max(physical_min, 0), key=self._offset_of
        )
        if self.extension is not None and self.min_offset < self.next_offset:
            code = self.unit(self.min_offset)[2]
            if is_address(code):
                self.extension.drop_before(code)

    def drop_expired(self, physical_min: int) -> int:
        """Removes files whose last unit lies before `physical_min`, never the last file. Returns how many."""
        dropped = 0
        segments = self._segments.segments
        while len(segments) > 1:
            offset, size, _ = _unpack(segments[0].view, self._segments.size - UNIT)
            if size != FILLER_SIZE and offset >= physical_min:
                break
            self._segments.drop_first()
            dropped += 1
        return dropped

    def release_views(self) -> None:
        self._view = memoryview(b"")
        self._position = self._segments.size

    def close(self) -> None:
        self.release_views()
        self._segments.close()
        if self.extension is not None:
            self.extension.close()

    def destroy(self) -> None:
        self.release_views()
        self._segments.destroy()
        if self.extension is not None:
            self.extension.destroy()
