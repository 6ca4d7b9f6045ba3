"""The commit log: records of all topics one after the other (Java `CommitLog`).

* A run of bytes never crosses a file: if it and the 8 bytes of a BLANK record do not fit, a BLANK record ends the file.
* A run is written behind its first four bytes, the total size, which come last: whoever is killed in between leaves no record.
* Written and read pages leave the resident memory after `TRIM_BYTES`; they stay in the page cache.
* Who writes much (`AHEAD_AFTER` into one file) is told of the pages that come next, so that they can be had beforehand.
* A mapped page that the disk has no room for ends the process: every `SPACE_STEP` bytes somebody looks how much there is.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.store.segment import Segment
from broker.store.segment_list import SegmentList
from codec.errors import CorruptionError
from codec.store.record import peek_record, store_timestamp_at
from codec.store.record_encoder import encode_blank
from codec.store.record_layout import MAGIC_BLANK, MIN_RECORD_SIZE

__all__ = ["BLANK_ROOM", "CommitLog"]

TRIM_BYTES = 8 * 1024 * 1024
AHEAD_AFTER = 1024 * 1024
AHEAD_BYTES = 4 * 1024 * 1024
"""More would be of no use to a slow writer: the next flush takes back what he has not come to yet."""
SPACE_STEP = 1024 * 1024
BLANK_ROOM = 8


class CommitLog:
    """`end` is the offset of the next record, `flushed` what is known to be on the disk.

    `pages_wanted` is called when `pages_ahead` has something to say, `space_wanted` when the disk should be looked at.
    """

    __slots__ = (
        "_ahead_at",
        "_ahead_end",
        "_attend_at",
        "_last_end",
        "_position",
        "_read_since_trim",
        "_space_at",
        "_spare",
        "_trim_at",
        "_view",
        "end",
        "flushed",
        "pages_wanted",
        "segments",
        "space_wanted",
    )

    def __init__(self, segments: SegmentList) -> None:
        self.segments = segments
        self.end = 0
        self.flushed = 0
        self._spare: Segment | None = None
        self._view = memoryview(b"")
        self._position = segments.size
        self._last_end = segments.size - BLANK_ROOM
        self._trim_at = self._ahead_at = self._ahead_end = self._space_at = self._attend_at = segments.size
        self._read_since_trim = 0
        self.pages_wanted: Callable[[], None] | None = None
        self.space_wanted: Callable[[], None] | None = None

    @property
    def start(self) -> int:
        """Offset of the first byte that exists (Java `getMinOffset`)."""
        return self.segments.start

    @property
    def room(self) -> int:
        """Bytes of the longest run that goes into the current file."""
        return self._last_end - self._position

    def end_at(self, end: int) -> None:
        """Everything from `end` on is removed; the next record goes there."""
        self.segments.cut(end)
        self.end = self.flushed = end
        segment = self.segments.find(end)
        if segment is None:
            self._view, self._position = memoryview(b""), self.segments.size
        else:
            self._attach(segment, end - segment.start)

    def roll(self) -> None:
        """Ends the current file with a BLANK record and opens the next one. OSError if it cannot be created."""
        room = self.segments.size - self._position
        start = self.end + room
        segment = self._take_spare(start)
        if room:
            self._view[self._position : self._position + BLANK_ROOM] = encode_blank(room)
        self._attach(segment, 0)
        self.end = start

    def _take_spare(self, start: int) -> Segment:
        spare, self._spare = self._spare, None
        if spare is None or spare.start != start:
            return self.segments.create(start)
        self.segments.segments.append(spare)
        return spare

    def _attach(self, segment: Segment, position: int) -> None:
        self._view = segment.view
        self._position = position
        self._trim_at = position + TRIM_BYTES
        self._ahead_end = position
        self._ahead_at = position + AHEAD_AFTER
        self._space_at = position
        self._set_attend()

    def _set_attend(self) -> None:
        self._attend_at = min(self._trim_at, self._ahead_at, self._space_at)

    def write(self, run: bytes) -> bool:
        """Appends whole records; False if they do not go into the current file any more."""
        position = self._position
        length = len(run)
        end = position + length
        if end > self._last_end:
            return False
        view = self._view
        view[position + 4 : end] = run[4:]
        view[position : position + 4] = run[:4]
        self._position = end
        self.end += length
        if end >= self._attend_at:
            self._attend(end)
        return True

    def _attend(self, end: int) -> None:
        """What is due now and then, when the writer has come to `end`."""
        if end >= self._trim_at:
            self._trim(end)
        if end >= self._ahead_at:
            self._ahead_at = self.segments.size
            if self.pages_wanted is not None:
                self.pages_wanted()
        if end >= self._space_at:
            self._space_at = end + SPACE_STEP
            if self.space_wanted is not None:
                self.space_wanted()
        self._set_attend()

    def pages_ahead(self) -> tuple[Segment, int, int]:
        """Segment, position and length of what will be written next; from now on it counts as had."""
        segment = self.segments.segments[-1]
        start = max(self._position, self._ahead_end)
        self._ahead_end = min(start + AHEAD_BYTES, segment.size)
        self._ahead_at = max(self._ahead_end - AHEAD_BYTES // 2, self._position + 1)
        self._set_attend()
        return segment, start, self._ahead_end - start

    def _trim(self, end: int) -> None:
        segment = self.segments.segments[-1]
        segment.release_pages(self._trim_at - TRIM_BYTES, TRIM_BYTES)
        self._trim_at = end + TRIM_BYTES

    def note_read(self, size: int) -> None:
        """Counts bytes that readers touched; lets go of the pages of all files now and then."""
        self._read_since_trim += size
        if self._read_since_trim > TRIM_BYTES:
            self._read_since_trim = 0
            for segment in self.segments.segments:
                segment.release_pages(0, segment.size)

    def spare_wanted(self) -> int | None:
        """Start of the file that should be created before it is needed; None if it is there or nothing was written."""
        if not self.segments.segments or self._spare is not None:
            return None
        return self.segments.segments[-1].end

    def offer_spare(self, segment: Segment) -> None:
        """Takes a file that was created ahead, or throws it away if the log rolled meanwhile."""
        if self._spare is None and segment.start == self.segments.segments[-1].end:
            self._spare = segment
        else:
            segment.close()

    def slice(self, offset: int, size: int) -> memoryview | None:
        """The bytes [offset, offset + size); None unless they are all in one file of the log."""
        segment = self.segments.find(offset)
        if segment is None or size < 0 or offset + size > self.end:
            return None
        position = offset - segment.start
        if position + size > segment.size:
            return None
        return segment.view[position : position + size]

    def record(self, offset: int) -> memoryview | None:
        """The record that starts at `offset`; None if there is none."""
        head = self.slice(offset, MIN_RECORD_SIZE)
        if head is None:
            return None
        size, magic = peek_record(head, 0)
        return self.slice(offset, size) if size >= MIN_RECORD_SIZE and magic != MAGIC_BLANK else None

    def store_timestamp(self, offset: int, size: int) -> int:
        """Store time in ms of a record; -1 if it does not exist."""
        record = self.slice(offset, size)
        if record is None or size < MIN_RECORD_SIZE:
            return -1
        try:
            return store_timestamp_at(record, 0)
        except CorruptionError:
            return -1

    def next_file(self, offset: int) -> int:
        """Start of the file behind the one that holds `offset` (Java `rollNextFile`)."""
        return offset + self.segments.size - offset % self.segments.size

    def close(self) -> None:
        """Closes; a file that was created ahead and not used is removed, as Java does."""
        self._view = memoryview(b"")
        self._position = self.segments.size
        if self._spare is not None:
            self._spare.destroy()
            self._spare = None
        self.segments.close()
