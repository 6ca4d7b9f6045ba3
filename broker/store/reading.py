"""Reads of one queue: a window of entries, filtered, and the records they point at (Java `DefaultMessageStore.getMessage`).

The window is `max(16000, max_nums * 20)` bytes of entries and ends with the queue file. A batch is full by count or bytes;
the limits are smaller when the records are far behind the log's end ("in disk": more than 40 % of the machine's RAM).
Neighbouring records are returned as one view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.store.commit_log import CommitLog
from broker.store.config import StoreConfig, physical_memory
from broker.store.consume_queue import ConsumeQueue, entries_at
from broker.store.readiness import Chunk, Readiness
from broker.store.values import GetResult, GetStatus
from codec.store.consume_queue import ENTRY_SIZE
from codec.store.consume_queue_ext import HIGHEST_ADDRESS, ExtensionEntry

WINDOW_BYTES = 16_000

AcceptsCode = Callable[[int], bool]
AcceptsRecord = Callable[[memoryview], bool]
AcceptsExtension = Callable[[ExtensionEntry | None], bool]
"""Judges the extension of a queue entry; None: it has none."""


class Reader:
    """Serves `MessageStore.get`. Raises NotReady when `readiness` is strict and pages have to be read first."""

    def __init__(self, config: StoreConfig, log: CommitLog, readiness: Readiness) -> None:
        self._log = log
        self._readiness = readiness
        self.configure(config)

    def configure(self, config: StoreConfig) -> None:
        """Applies the limits of a configuration."""
        self.memory_limit = physical_memory() * config.access_message_in_memory_max_ratio // 100
        self._in_memory = (
            config.max_transfer_bytes_on_message_in_memory,
            config.max_transfer_count_on_message_in_memory,
        )
        self._in_disk = (
            config.max_transfer_bytes_on_message_in_disk,
            config.max_transfer_count_on_message_in_disk,
        )

    def get(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        max_nums: int,
        accepts_code: AcceptsCode | None,
        accepts_record: AcceptsRecord | None,
        accepts_extension: AcceptsExtension | None,
    ) -> GetResult:
        """Records from `offset` on, at most `max_nums` (always the first, whatever its size)."""
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
        refusal = _range_status(queue, offset)
        if refusal is not None:
            status, begin = refusal
            return GetResult(status, begin, queue.min_offset, queue.next_offset, [])
        return self._scan(queue, offset, max_nums, accepts_code, accepts_record, accepts_extension)

    def _scan(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_nums: int,
        accepts_code: AcceptsCode | None,
        accepts_record: AcceptsRecord | None,
        accepts_extension: AcceptsExtension | None,
    ) -> GetResult:
        log = self._log
        status = GetStatus.NO_MATCHED_MESSAGE
        batch = _Batch()
        window = max(WINDOW_BYTES, max_nums * ENTRY_SIZE) // ENTRY_SIZE
        place = queue.place(offset, window)
        if place is not None and self._readiness.strict:
            self._readiness.require(*place, queue.written_in(place[0]))
        removed_before = -1
        physical = 0
        scanned = 0
        for physical, size, code in entries_at(place):
            if physical < removed_before:
                scanned += 1
                continue
            if batch.count and self._full(batch, max_nums, size, log.end - physical):
                break
            scanned += 1
            if (
                accepts_code is not None
                and not accepts_code(code)
                and (code > HIGHEST_ADDRESS or not self._passes(queue, code, accepts_code))
            ):
                continue
            if accepts_extension is not None and not accepts_extension(
                queue.extended(code, self._readiness.require)
            ):
                continue
            record = log.slice(physical, size) if physical >= log.start else None
            if record is None:
                if not batch.count:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                removed_before = log.next_file(physical)
                continue
            removed_before = -1
            if accepts_record is not None:
                if self._must_stop(physical, size, scanned):
                    scanned -= 1
                    break
                if not accepts_record(record):
                    continue
            batch.add(record, physical, size, log)
            status = GetStatus.FOUND
        if not scanned:
            begin = queue.next_file_offset(offset)
            return GetResult(GetStatus.OFFSET_FOUND_NULL, begin, queue.min_offset, queue.next_offset, [])
        self._require_records(zip(batch.starts, map(len, batch.views), strict=True))
        log.note_read(batch.size)
        slow = log.end - physical > self.memory_limit
        return GetResult(
            status,
            offset + scanned,
            queue.min_offset,
            queue.next_offset,
            batch.views,
            batch.count,
            batch.size,
            slow,
        )

    def _passes(self, queue: ConsumeQueue, address: int, accepts_code: AcceptsCode) -> bool:
        """True if the tags code at an address is wanted; one that cannot be found may be, as in Java."""
        extension = queue.extended(address, self._readiness.require)
        return extension is None or accepts_code(extension.tags_code)

    def _require_records(self, spans: Iterable[tuple[int, int]]) -> None:
        if self._readiness.strict:
            cold = [chunk for offset, size in spans for chunk in self._cold(offset, size)]
            if cold:
                raise self._readiness.loading(cold)

    def _must_stop(self, offset: int, size: int, scanned: int) -> bool:
        """True if a record must be read from the disk: then the result is what was found before. NotReady for the first one."""
        cold = self._cold(offset, size) if self._readiness.strict else []
        if cold and scanned == 1:
            raise self._readiness.loading(cold)
        return bool(cold)

    def _cold(self, offset: int, size: int) -> list[Chunk]:
        place = self._log.place(offset, size)
        return [] if place is None else self._readiness.cold(*place, self._log.written_in(place[0]))

    def _full(self, batch: _Batch, max_nums: int, size: int, behind: int) -> bool:
        if batch.count >= max_nums:
            return True
        most_bytes, most = self._in_disk if behind > self.memory_limit else self._in_memory
        return batch.size + size > most_bytes or batch.count >= most


def _range_status(queue: ConsumeQueue, offset: int) -> tuple[GetStatus, int] | None:
    """The reason why nothing can be read at `offset`, and where to continue; None if it is in range."""
    if queue.next_offset == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < queue.min_offset:
        return GetStatus.OFFSET_TOO_SMALL, queue.min_offset
    if offset == queue.next_offset:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > queue.next_offset:
        return GetStatus.OFFSET_OVERFLOW_BADLY, queue.next_offset
    return None


class _Batch:
    """Records found so far; one that follows the previous one in the log lengthens its view."""

    __slots__ = ("_end", "_start", "count", "size", "starts", "views")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.views: list[memoryview] = []
        self.count = 0
        self.size = 0
        self._start = self._end = -1

    def add(self, record: memoryview, offset: int, size: int, log: CommitLog) -> None:
        joined = log.slice(self._start, offset + size - self._start) if offset == self._end else None
        if joined is not None:
            self.views[-1] = joined
        else:
            self.views.append(record)
            self.starts.append(offset)
            self._start = offset
        self._end = offset + size
        self.count += 1
        self.size += size
