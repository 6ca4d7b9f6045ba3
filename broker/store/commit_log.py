"""The commit log: records of all topics one after the other (Java `CommitLog`).

* A run never crosses a file boundary: if it and the 8 bytes of a filler record do not fit, a filler ends the
  file.
* The first four bytes of a run, the total size, are written last: a process killed in between leaves no
  record.
* Written and read pages leave the resident memory after `TRIM_BYTES`; they stay in the page cache.
* After `AHEAD_AFTER` bytes in one file, the writer requests that the next pages be allocated in advance.
* Touching a mapped page for which the disk has no room would kill the process, so records are written only
  where blocks are reserved. The free space is checked every `SPACE_STEP` bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from rmqcli.broker.disk import Disk
from rmqcli.broker.store.config import COMMIT_LOG_FILE_SIZE, StoreConfig
from rmqcli.broker.store.segment import Place, Reservation, Segment
from rmqcli.broker.store.segment_list import SegmentList, adopted_size
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.encoding import encode_filler
from rmqcli.codec.records.reading import peek_record, store_timestamp_at
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER, MIN_RECORD_SIZE

TRIM_BYTES = 8 * 1024 * 1024
AHEAD_AFTER = 1024 * 1024
AHEAD_BYTES = 4 * 1024 * 1024
"""More would not help a slow writer: the next flush releases the pages that it has not reached."""
SPACE_STEP = 1024 * 1024
LOG_STEP = 1024 * 1024
"""Minimum number of bytes for which blocks are reserved at once; more are requested when half of them are
left."""


def _nothing() -> None:
    """Do nothing; the default of a listener."""


class CommitLog:
    """The commit log. `end` is the offset of the next record; everything before `flushed` is on the disk.

    `pages_wanted` is called when the pages of `pages_ahead` should be allocated, `space_wanted` when the free
    space should be checked, `rolled` after a new file was begun, `blocks_wanted` when `grows` should be
    reserved.
    """

    def __init__(self, segments: SegmentList) -> None:
        self.segments = segments
        self.end = 0
        self.flushed = 0
        self._view = memoryview(b"")
        self._position = segments.size
        self._segment: Segment | None = None
        self.set_ready()
        # A limit of one file size is never reached, because a run leaves room for a filler.
        self._trim_at = self._ahead_at = self._ahead_end = self._space_at = self._attend_at = segments.size
        self._grow_at = segments.size
        self._read_since_trim = 0
        self.pages_wanted: Callable[[], None] = _nothing
        self.space_wanted: Callable[[], None] = _nothing
        self.rolled: Callable[[], None] = _nothing
        self.blocks_wanted: Callable[[], None] = _nothing

    @property
    def start(self) -> int:
        """Offset of the first byte that exists (Java `getMinOffset`)."""
        return self.segments.start

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Start and end of the log (equal if it has no files), and the size of a file."""
        segments = self.segments
        files = segments.segments
        return (files[0].start, self.end, segments.size) if files else (0, 0, segments.size)

    @property
    def room(self) -> int:
        """Size of the longest run that can go into the current file, in bytes."""
        return self._last_end - self._position

    def end_at(self, end: int) -> None:
        """Remove everything from `end` on; the next record goes there. Blocks."""
        self.segments.cut(end)
        self.end = self.flushed = end
        segment = self.segments.find(end)
        if segment is None:
            self._segment, self._view, self._position = None, memoryview(b""), self.segments.size
        else:
            self._attach(segment, end - segment.start)
            self.doubt()

    def begin_at(self, start: int) -> None:
        """Make an empty log begin at `start`, which has to be the start of a file."""
        self.end = self.flushed = start

    @property
    def is_ready(self) -> bool:
        """False after `doubt`: nothing goes into the current file until `set_ready`."""
        return not self._in_doubt

    def doubt(self) -> None:
        """Note that the page of the next record may have been evicted from memory."""
        # No run ends before 0, so that `write` needs no further comparison.
        self._last_end = 0
        self._in_doubt = True

    def set_ready(self) -> None:
        """Note that the page of the next record is in memory."""
        self._in_doubt = False
        # A run must leave room for the head of a filler, which ends the file.
        self._last_end = (0 if self._segment is None else self._segment.reserved) - FILLER_HEAD_SIZE

    def note_reserved(self) -> None:
        """Note that more of the current file may be reserved."""
        if not self._in_doubt:
            self.set_ready()
        segment = self._segment
        if segment is not None:
            grow_at = segment.reserved - LOG_STEP // 2
            is_later = self._position < grow_at and segment.reserved < segment.size
            # If the disk refused to reserve more, the writer requests it when it gets there.
            self._grow_at = grow_at if is_later else segment.size
            self._set_attend()

    @property
    def grows(self) -> Reservation | None:
        """The current file, and the position up to which to reserve blocks now; None if they are reserved."""
        end = min(self._position + LOG_STEP // 2, self.segments.size)
        return (self._segment, end) if self._segment is not None and self._segment.reserved < end else None

    def fits(self, size: int) -> bool:
        """Return True if a run of `size` bytes fits into the current file, whether or not blocks are
        reserved."""
        return self._segment is not None and self._position + size + FILLER_HEAD_SIZE <= self._segment.size

    def unreserved(self, size: int) -> Reservation | None:
        """Return the current file and the position up to which blocks must be reserved for a run, or for a
        filler if the run does not fit; None if all are reserved."""
        if self._segment is None:
            return None
        reached = self._position + (size if self.fits(size) else 0) + FILLER_HEAD_SIZE
        end = min(reached, self._segment.size)
        return (self._segment, end) if end > self._segment.reserved else None

    def shared_pages(self) -> list[Place]:
        """Return file and position of the page that the next record shares with earlier ones, if any."""
        return self.segments.shared_pages(self.end)

    @property
    def next_start(self) -> int:
        """Offset at which the next file begins."""
        return self.end + self.segments.size - self._position

    def roll(self) -> None:
        """End the current file with a filler record and begin the next one. Raises OSError."""
        start = self.next_start
        # First, because the disk may refuse the file: a filler would have ended the current one for good.
        segment = self.segments.append(start)
        room = start - self.end
        if room:  # only the head of the filler is written: the rest of the file stays a hole
            self._view[self._position : self._position + FILLER_HEAD_SIZE] = encode_filler(room)
        self._attach(segment, 0)
        self.end = start
        self.rolled()

    def _attach(self, segment: Segment, position: int) -> None:
        self._segment = segment
        segment.note_written(position)
        self._view = segment.view
        self._position = position
        self.set_ready()
        self._trim_at = position + TRIM_BYTES
        self._ahead_end = position
        self._ahead_at = position + AHEAD_AFTER
        self._space_at = position
        self.note_reserved()

    def _set_attend(self) -> None:
        self._attend_at = min(self._trim_at, self._ahead_at, self._space_at, self._grow_at)

    def write(self, run: bytes | bytearray) -> bool:
        """Append whole records. Return False if the current file has no room for them."""
        position = self._position
        length = len(run)
        end = position + length
        if end > self._last_end:
            return False
        view = self._view
        # The size of the first record goes last: a process killed before that leaves no record. The slice of
        # a view is no copy, unlike that of the run itself.
        view[position + 4 : end] = memoryview(run)[4:]
        view[position : position + 4] = run[:4]
        self._position = end
        self.end += length
        if end >= self._attend_at:  # the least of four limits, so that a write compares only once
            self._attend(end)
        return True

    def _attend(self, end: int) -> None:
        """Do the periodic work that is due now that the writer has reached `end`."""
        if end >= self._trim_at:
            self._trim(end)
        if end >= self._ahead_at:
            # Asked for once; `pages_ahead` sets the next limit.
            self._ahead_at = self.segments.size
            self.pages_wanted()
        if end >= self._grow_at:
            self._grow_at = self.segments.size
            self.blocks_wanted()
        if end >= self._space_at:
            self._space_at = end + SPACE_STEP
            self.space_wanted()
        self._set_attend()

    def pages_ahead(self) -> tuple[Segment, int, int]:
        """Return segment, position and length of the next pages to allocate, and count them as allocated."""
        segment = self.segments.segments[-1]
        start = max(self._position, self._ahead_end)
        self._ahead_end = min(start + AHEAD_BYTES, segment.size)
        is_whole = self._ahead_end == segment.size  # there is nothing left to request
        self._ahead_at = (
            segment.size if is_whole else max(self._ahead_end - AHEAD_BYTES // 2, self._position + 1)
        )
        self._set_attend()
        return segment, start, self._ahead_end - start

    def _trim(self, end: int) -> None:
        segment = self.segments.segments[-1]
        segment.release_pages(self._trim_at - TRIM_BYTES, TRIM_BYTES)
        self._trim_at = end + TRIM_BYTES

    def note_read(self, size: int) -> None:
        """Count bytes that readers touched; release the pages of all files every `TRIM_BYTES`."""
        self._read_since_trim += size
        if self._read_since_trim > TRIM_BYTES:
            self.release_pages()

    def release_pages(self) -> None:
        """Release pages that were read or written from memory; the page cache keeps them."""
        self._read_since_trim = 0
        for segment in self.segments.segments:
            segment.release_pages(0, segment.size)

    def slice(self, offset: int, size: int) -> memoryview | None:
        """Return a view of the bytes [offset, offset + size); None unless all are in one file of the log."""
        segment = self.segments.find(offset)
        if segment is None or size < 0 or offset + size > self.end:
            return None
        position = offset - segment.start
        if position + size > segment.size:
            return None
        return segment.view[position : position + size]

    def place(self, offset: int, size: int) -> tuple[Segment, int, int] | None:
        """Return file, position and length of the part of a range that lies in its first file; None if the
        range begins outside the log."""
        segment = self.segments.find(offset)
        if segment is None or size < 0 or offset >= self.end:
            return None
        position = offset - segment.start
        return segment, position, min(size, self.written_in(segment) - position)

    def written_in(self, segment: Segment) -> int:
        """Return the position after the last written byte of a file."""
        return min(self.end - segment.start, segment.size)

    def record(self, offset: int) -> memoryview | None:
        """Return a view of the record that starts at `offset`; None if there is none."""
        head = self.slice(offset, MIN_RECORD_SIZE)
        if head is None:
            return None
        size, magic = peek_record(head, 0)
        return self.slice(offset, size) if size >= MIN_RECORD_SIZE and magic != MAGIC_FILLER else None

    def store_timestamp(self, offset: int, size: int) -> int:
        """Return the store time of a record in ms; -1 if it does not exist."""
        record = self.slice(offset, size)
        if record is None or size < MIN_RECORD_SIZE:
            return -1
        try:
            return store_timestamp_at(record, 0)
        except CorruptionError:
            return -1

    def close(self) -> None:
        self._segment, self._view, self._position = None, memoryview(b""), self.segments.size
        self.segments.close()


def log_of(config: StoreConfig, disk: Disk) -> CommitLog:
    """Return the commit log of a store. With SYNC_FLUSH, pages are not allocated in advance: the event loop
    touches each page first, so read-around is off, and a touch loads only that page.
    """
    folder = config.commit_log_folder
    size = config.mapped_file_size_commit_log or adopted_size(disk, folder) or COMMIT_LOG_FILE_SIZE
    segments = SegmentList(
        disk,
        folder,
        size,
        "mappedFileSizeCommitLog",
        LOG_STEP,
        read_around=not config.sync_flush,
        read_ahead=config.data_read_ahead_enable,
    )
    return CommitLog(segments)
