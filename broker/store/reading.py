"""Reads of one queue: a window of units, filtered, and the records they point at (Java `DefaultMessageStore.getMessage`).

The window is `max(16000, max_nums * 20)` bytes of units and ends with the queue file. A batch is full by count or bytes;
the limits are smaller when the records are far behind the log's end ("in disk": more than 40 % of the machine's RAM).
Neighbouring records are given out as one view.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.store.commit_log import CommitLog
from broker.store.config import StoreConfig, physical_memory
from broker.store.consume_queue import UNIT, ConsumeQueue
from broker.store.values import GetResult, GetStatus
from codec.store.consume_queue_ext import HIGHEST_ADDRESS, Unit

__all__ = ["Reader"]

WINDOW_BYTES = 16_000

AcceptsCode = Callable[[int], bool]
AcceptsRecord = Callable[[memoryview], bool]
AcceptsUnit = Callable[[Unit | None], bool]
"""Judges the extension of a queue unit; None: it has none."""


class Reader:
    """Serves `MessageStore.get`."""

    def __init__(self, config: StoreConfig, log: CommitLog) -> None:
        self._log = log
        self.configure(config)

    def configure(self, config: StoreConfig) -> None:
        """Takes the limits of a configuration."""
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
        accepts_unit: AcceptsUnit | None,
    ) -> GetResult:
        """Records from `offset` on, at most `max_nums` (the first is always given, whatever its size)."""
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
        refusal = _range_status(queue, offset)
        if refusal is not None:
            status, begin = refusal
            return GetResult(status, begin, queue.min_offset, queue.next_offset, [])
        return self._scan(queue, offset, max_nums, accepts_code, accepts_record, accepts_unit)

    def _scan(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_nums: int,
        accepts_code: AcceptsCode | None,
        accepts_record: AcceptsRecord | None,
        accepts_unit: AcceptsUnit | None,
    ) -> GetResult:
        log = self._log
        status = GetStatus.NO_MATCHED_MESSAGE
        batch = _Batch()
        removed_before = -1
        physical = 0
        scanned = 0
        for physical, size, code in queue.units(offset, max(WINDOW_BYTES, max_nums * UNIT) // UNIT):
            if physical < removed_before:
                scanned += 1
                continue
            if batch.count and self._full(batch, max_nums, size, log.end - physical):
                break
            scanned += 1
            if (
                accepts_code is not None
                and not accepts_code(code)
                and (code > HIGHEST_ADDRESS or not _passes(queue, code, accepts_code))
            ):
                continue
            if accepts_unit is not None and not accepts_unit(queue.extended(code)):
                continue
            record = log.slice(physical, size) if physical >= log.start else None
            if record is None:
                if not batch.count:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                removed_before = log.next_file(physical)
                continue
            removed_before = -1
            if accepts_record is not None and not accepts_record(record):
                continue
            batch.add(record, physical, size, log)
            status = GetStatus.FOUND
        if not scanned:
            begin = queue.next_file_offset(offset)
            return GetResult(GetStatus.OFFSET_FOUND_NULL, begin, queue.min_offset, queue.next_offset, [])
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

    def _full(self, batch: _Batch, max_nums: int, size: int, behind: int) -> bool:
        if batch.count >= max_nums:
            return True
        most_bytes, most = self._in_disk if behind > self.memory_limit else self._in_memory
        return batch.size + size > most_bytes or batch.count >= most


def _passes(queue: ConsumeQueue, address: int, accepts_code: AcceptsCode) -> bool:
    """Whether the tags code at an address is wanted; one that cannot be found may be, as in Java."""
    unit = queue.extended(address)
    return unit is None or accepts_code(unit.tags_code)


def _range_status(queue: ConsumeQueue, offset: int) -> tuple[GetStatus, int] | None:
    """Why nothing can be read at `offset`, and where to go on; None if it is in range."""
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

    __slots__ = ("_end", "_start", "count", "size", "views")

    def __init__(self) -> None:
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
            self._start = offset
        self._end = offset + size
        self.count += 1
        self.size += size
