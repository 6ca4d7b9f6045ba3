"""The records that a pull returns from a queue, found through the queue's entries (Java
`DefaultMessageStore.getMessage`).

Entries come as bytes of a consume-queue file; only the bounds of the log are known here. Anything that may
wait for the disk is left to callables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from rmqcli.codec.store.consume_queue import ENTRY, HIGHEST_ADDRESS

_ENTRY_SIZE: Final[i64] = ENTRY.size
_SIZE: Final[i64] = ENTRY.offsets["size"]
_CODE: Final[i64] = ENTRY.offsets["tags_code"]
_HIGHEST_ADDRESS: Final[i64] = HIGHEST_ADDRESS
_LOWEST: Final[i64] = -(1 << 63)
_HIGHEST: Final[i64] = (1 << 63) - 1


class Stretches:
    """Ranges of a log file, which begins at offset `start`: they ascend, and no two are adjacent.

    `begins` and `ends` are positions in the file, `size` is the number of bytes in the ranges; `end` is the
    last end.
    """

    def __init__(self, start: i64) -> None:
        self.start: i64 = start
        self.size: i64 = 0
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.end: i64 = 0

    def add(self, position: i64, size: i64) -> None:
        """Add a record at a position at or after the last end."""
        end: i64 = position + size
        if position == self.end and self.ends:
            self.ends[-1] = end
        else:
            self.begins.append(position)
            self.ends.append(end)
        self.end = end
        self.size += size

    def views(self, file: memoryview) -> list[memoryview]:
        """Return one view of the file for each range."""
        return [file[self.begins[place] : self.ends[place]] for place in range(len(self.begins))]


class Delivery:
    """The records that one pull returns: `count` records, in `files` of the log, `size` bytes in total. The
    last one ends at `end`.

    `scanned` is the number of entries processed, `last` the commit-log offset in the entry examined last.
    `has_removed` is True if an entry before all records of the pull refers to bytes that the log does not
    have.
    """

    def __init__(
        self,
        limits: tuple[int, int, int, int],
        most: int,
        log: tuple[int, int, int],
        memory_start: i64,
        accepts_code: Callable[[int], bool] | None,
        accepts_address: Callable[[int], bool] | None,
        accepts_record: Callable[[int, int, bool], bool | None] | None,
    ) -> None:
        """Prepare a pull of at most `most` records; the first one may have any size.

        `limits` are the maximum records and bytes in memory, then those on disk; the disk is everything
        before `memory_start`. `log` has the begin and end of the log, and the size of its files.

        `accepts_code` receives a tags code, `accepts_address` one that is the address of an extension entry;
        `accepts_record` receives the offset and size of a record, and True if its entry is the first. It
        returns None to end the pull before the record. Without a callable, everything is accepted.
        """
        memory_count, memory_bytes, disk_count, disk_bytes = limits
        begin, end, file_size = log
        self._memory_count: i64 = min(memory_count, most)
        self._memory_bytes: i64 = memory_bytes
        self._disk_count: i64 = min(disk_count, most)
        self._disk_bytes: i64 = disk_bytes
        self._log_start: i64 = begin
        self._log_end: i64 = end
        self._file_size: i64 = file_size
        self._memory_start: i64 = memory_start
        self._accepts_code = accepts_code
        self._accepts_address = accepts_address
        self._accepts_record = accepts_record
        self._removed_before: i64 = _LOWEST
        self._file: Stretches | None = None
        self._file_end: i64 = 0
        self.files: list[Stretches] = []
        self.count: i64 = 0
        self.size: i64 = 0
        self.scanned: i64 = 0
        self.last: i64 = 0
        self.end: i64 = 0
        self.has_removed = False

    def read(self, entries: bytes) -> bool:
        """Process the next entries; return True if the pull is complete."""
        at: i64 = 0
        last: i64 = len(entries) - _ENTRY_SIZE
        while at <= last:
            offset: i64 = read_i64_be(entries, at)
            size: i64 = i64(read_i32_be(entries, at + _SIZE))
            code: i64 = read_i64_be(entries, at + _CODE)
            at += _ENTRY_SIZE
            self.last = offset
            if offset < self._removed_before:
                self.scanned += 1
                continue
            # Checked before the entry counts as scanned, so that the next pull begins with it.
            if self.count > 0 and self._is_full(offset, size):
                return True
            self.scanned += 1
            if not self._is_wanted(code):
                continue
            if not self._is_held(offset, size):
                if self.count == 0:
                    self.has_removed = True
                # As in Java, entries are skipped up to the end of the file: segments are deleted as a whole.
                self._removed_before = self._end_of_file(offset)
                continue
            self._removed_before = _LOWEST
            if self._accepts_record is not None:
                is_accepted = self._accepts_record(offset, size, self.scanned == 1)
                if is_accepted is None:
                    # The entry is not processed, so the next pull begins with it.
                    self.scanned -= 1
                    return True
                if not is_accepted:
                    continue
            self._take(offset, size)
        return False

    def _is_full(self, offset: i64, size: i64) -> bool:
        """Return True if a record would exceed the limits together with those before it."""
        if offset < self._memory_start:
            return self.count >= self._disk_count or self.size + size > self._disk_bytes
        return self.count >= self._memory_count or self.size + size > self._memory_bytes

    def _is_wanted(self, code: i64) -> bool:
        """Return True if the message of an entry with this code may match the subscription."""
        accepts = self._accepts_address if code <= _HIGHEST_ADDRESS else self._accepts_code
        return accepts is None or accepts(code)

    def _is_held(self, offset: i64, size: i64) -> bool:
        """Return True if the log has these bytes, in one file."""
        if size < 0 or not self._log_start <= offset < self._log_end:
            return False
        return size <= min(self._end_of_file(offset), self._log_end) - offset

    def _end_of_file(self, offset: i64) -> i64:
        """Return the end of the log file with the byte at an offset (Java `rollNextFile`)."""
        # The sum below could exceed 64 bits.
        if offset > _HIGHEST - self._file_size:
            return _HIGHEST
        if offset < 0:  # not in any file, and the subtraction below could exceed 64 bits
            return 0
        return offset - (offset - self._log_start) % self._file_size + self._file_size

    def _take(self, offset: i64, size: i64) -> None:
        file = self._file
        if file is None or not file.start + file.end <= offset < self._file_end:
            self._file_end = self._end_of_file(offset)
            self._file = file = Stretches(self._file_end - self._file_size)
            self.files.append(file)
        file.add(offset - file.start, size)
        self.count += 1
        self.size += size
        self.end = offset + size
