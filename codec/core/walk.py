"""A walk over the records of a commit-log file: the only code that decides where records are and which are
whole.

The file is read in windows, whose bytes are copied: they stay in the processor's cache, and the readers of
`librt.strings` accept only bytes.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from rmqcli.codec.core.record_reader import FILLER, HEAD_SIZE, RecordReader, RecordScan
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.layout import Buffer

STOP: Final = 0
"""Ending of a walk: the given `stop` was reached."""
CLOSED: Final = 1
"""Ending of a walk: a filler record, after which the file is unused."""
UNWRITTEN: Final = 2
"""Ending of a walk: size and magic are zero, so nothing was written yet, or the file ends before a head."""

# Windows of 256 KiB took longer: the allocator mapped and unmapped the memory of each.
_WINDOW: Final[i64] = 1 << 16
_MASK: Final[i64] = 0xFFFFFFFF


class Walk:
    """A walk and its last record: `record` has the numbers and the positions in `data`; it is `size` bytes
    long, at byte `position` of the file.

    Once the walk `is_over`, `position` is where it ended and `ending` is the reason. `count` is the number of
    records so far.
    """

    def __init__(
        self,
        buffer: Buffer,
        base: i64,
        begin: i64 = 0,
        stop: i64 = -1,
        limit: i64 = -1,
        reach: i64 = -1,
        check_crc: bool = False,
    ) -> None:
        """Begin a walk over the records that start in [begin, stop) and end at or before `limit`; -1 means
        the end of the buffer.

        `base` is the commit-log offset of the buffer's first byte, or -1 to take it from the first record.
        The bytes after `reach` are zeros, and are not read unless a record extends into them.
        """
        size: i64 = len(buffer)
        self._buffer = buffer
        self._limit: i64 = size if limit < 0 else limit
        self._stop: i64 = self._limit if stop < 0 else stop
        self._reach: i64 = size if reach < 0 else reach
        self._check_crc = check_crc
        self._window_at: i64 = begin
        self._window_end: i64 = begin
        self.base: i64 = base
        self.record = RecordReader()
        self.data = b""
        self.position: i64 = begin
        self.size: i64 = 0
        self.count: i64 = 0
        self.ending: i64 = STOP
        self.is_over = False

    def next(self) -> bool:
        """Move to the next record; return False if the walk has ended.

        Raises CorruptionError, with its position, for anything but a whole record whose commit-log offset is
        that of its position and, if checked, whose CRC is correct; the walk stays at that position.
        """
        at: i64 = self.position + self.size
        self.position = at
        # After an error, the next call must read the same position again.
        self.size = 0
        if at >= self._stop:
            return self._end(STOP)
        if at + HEAD_SIZE > self._limit or at >= self._reach:
            return self._end(UNWRITTEN)
        if at + HEAD_SIZE > self._window_end:
            self._load(at, HEAD_SIZE)
        local: i64 = at - self._window_at
        total: i64 = i64(read_i32_be(self.data, local))
        magic: i64 = i64(read_i32_be(self.data, local + 4)) & _MASK
        if magic == FILLER:
            if total < HEAD_SIZE:
                raise CorruptionError(f"a filler record of {total} bytes", at)
            return self._end(CLOSED)
        if total == 0 and magic == 0:
            return self._end(UNWRITTEN)
        record = self.record
        if total > _WINDOW or at + total > self._limit:
            # A long record or garbage: `find` checks the lengths first and never copies the body.
            self.data = record.find(self._buffer, at, self._limit, self._check_crc)
            # `data` is not a window of the file now, so the next record must load one.
            self._window_end = at
        else:
            # A negative or too small `total` loads nothing; `read` refuses it.
            if at + total > self._window_end:
                self._load(at, total)
                local = 0
            record.read(self.data, local, self._limit - self._window_at, self._window_at)
            if self._check_crc:
                record.check_crc(self.data, self._window_at)
        if self.base < 0:
            self.base = record.physical_offset - at
        if record.physical_offset != self.base + at:
            stated: i64 = record.physical_offset
            right: i64 = self.base + at
            raise CorruptionError(f"a record with commit-log offset {stated} is at {right}", at)
        self.size = total
        self.count += 1
        return True

    def move(self, begin: i64, end: i64, data: bytes = b"", at: i64 = 0) -> None:
        """Continue with the records in [begin, end), of which the last must end at or before `end`.

        If there are `data`, they have the bytes of this range from position `at` on.
        """
        self.position = begin
        self.size = 0
        self._stop = end
        self._limit = end
        self.is_over = False
        self.data = data
        self._window_at = begin - at
        # Without data, the range is copied window by window.
        self._window_end = end if data else begin

    def _end(self, ending: i64) -> bool:
        self.ending = ending
        self.is_over = True
        return False

    def _load(self, at: i64, least: i64) -> None:
        end: i64 = min(at + _WINDOW, self._reach)
        end = min(max(end, at + least), self._limit)
        self.data = bytes(self._buffer[at:end])
        self._window_at = at
        self._window_end = end

    def skip(self) -> None:
        """Move over all records up to the end of the walk. Raises the errors of `next`."""
        while self.next():
            pass

    def scan(self) -> RecordScan:
        """Return the record as values."""
        return self.record.scan(self.data, self.size)
