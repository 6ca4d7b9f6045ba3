"""Reads of one queue: a window of entries, filtered, and the records they point to (Java
`DefaultMessageStore.getMessage`).

The window is `max(16000, max_nums * 20)` bytes of entries, here at most 64,000, and ends with the queue file.
Count and bytes of a result are limited; the limits are smaller for records far before the end of the log ("in
disk": further than 40 % of the memory that this process may use). Neighbouring records are returned as one
view. `rmqcli.codec.core.delivery` selects the records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.readiness import Chunk, Readiness
from rmqcli.broker.store.segment import Segment
from rmqcli.broker.store.values import GetResult, GetStatus
from rmqcli.codec.core.delivery import Delivery, Stretches
from rmqcli.codec.store.consume_queue import ENTRY_SIZE, ExtensionEntry, is_address
from rmqcli.machine import memory

WINDOW = 16_000 // ENTRY_SIZE
LONGEST_WINDOW = 64_000 // ENTRY_SIZE
"""Maximum number of entries that one pull examines."""
CLOSE_TOGETHER = 8
"""Records are close together if the range from the first to the last is at most this many times their
size."""
READ_BYTES = 64 * ENTRY_SIZE
"""Bytes of entries that are read at a time: most pulls return at most 32 records."""

AcceptsCode = Callable[[int], bool]
AcceptsRecord = Callable[[memoryview], bool]
AcceptsExtension = Callable[[ExtensionEntry | None], bool]
"""Judges the extension of a queue entry, or None if it has none."""


class Reader:
    """Serves `MessageStore.get`. Raises NotReady if `readiness` is strict and pages have to be read first."""

    def __init__(
        self, config: StoreConfig, log: CommitLog, queues: ConsumeQueues, readiness: Readiness
    ) -> None:
        self._log = log
        self._queues = queues
        self._readiness = readiness
        self.configure(config)

    def configure(self, config: StoreConfig) -> None:
        """Apply the limits of a configuration."""
        self._memory_limit = memory() * config.access_message_in_memory_max_ratio // 100
        self._limits = (
            config.max_transfer_count_on_message_in_memory,
            config.max_transfer_bytes_on_message_in_memory,
            config.max_transfer_count_on_message_in_disk,
            config.max_transfer_bytes_on_message_in_disk,
        )

    def is_in_disk(self, physical_offset: int) -> bool:
        """Return True if a record is further from the end of the log than 40 % of the RAM: Java assumes that
        it is not in memory.
        """
        return self._log.end - physical_offset > self._memory_limit

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_nums: int,
        *,
        accepts_code: AcceptsCode | None = None,
        accepts_record: AcceptsRecord | None = None,
        accepts_extension: AcceptsExtension | None = None,
    ) -> GetResult:
        """Return at most `max_nums` records of a queue from `offset` on (always the first, whatever its
        size).

        They are filtered by tags code, by extension, and then by record.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
        if not queue.min_offset <= offset < queue.next_offset:
            status, begin = _out_of_range(queue, offset)
            return GetResult(status, begin, queue.min_offset, queue.next_offset, [])
        log = self._log
        memory_start = log.end - self._memory_limit
        judge = None
        if queue.extension is not None or accepts_extension is not None:
            accepts_code = judge = partial(self._accepts, queue, accepts_code, accepts_extension)
        delivery = Delivery(
            self._limits,
            max_nums,
            log.bounds,
            memory_start,
            accepts_code,
            judge,
            None if accepts_record is None else partial(self._accepts_record, accepts_record),
        )
        self._read_window(delivery, queue, offset, max_nums)
        if not delivery.scanned:
            begin = queue.next_file_offset(offset)
            return GetResult(GetStatus.OFFSET_FOUND_NULL, begin, queue.min_offset, queue.next_offset, [])
        status = GetStatus.NO_MATCHED_MESSAGE
        if delivery.count:
            status = GetStatus.FOUND
        elif delivery.has_removed:
            status = GetStatus.MESSAGE_WAS_REMOVING
        return GetResult(
            status,
            offset + delivery.scanned,
            queue.min_offset,
            queue.next_offset,
            self._views(delivery),
            delivery.count,
            delivery.size,
            delivery.last < memory_start,
            delivery.end,
        )

    def _read_window(self, delivery: Delivery, queue: ConsumeQueue, offset: int, max_nums: int) -> None:
        """Read the window of entries from `offset` on. Raises NotReady if they must be read from the disk."""
        count = WINDOW if max_nums <= WINDOW else min(max_nums, LONGEST_WINDOW)
        place = queue.place(offset, count)
        if place is None:
            return
        segment, position, length = place
        if self._readiness.strict and not self._readiness.knows(segment, position, length):
            self._readiness.require(segment, position, length, queue.written_in(segment))
        view, end = segment.view, position + length
        # Copied, because the compiled core is fast on `bytes` only.
        while position < end and not delivery.read(bytes(view[position : min(position + READ_BYTES, end)])):
            position += READ_BYTES

    def _accepts(
        self,
        queue: ConsumeQueue,
        accepts_code: AcceptsCode | None,
        accepts_extension: AcceptsExtension | None,
        code: int,
    ) -> bool:
        """Return True if an entry with this code, of a queue that may have an extension, passes the filters
        by tags code and extension. As in Java, it passes the former if its extension cannot be found."""
        extension = queue.extended(code, self._readiness.require)
        is_lost = extension is None and is_address(code)
        tags_code = code if extension is None else extension.tags_code
        if not (is_lost or accepts_code is None or accepts_code(tags_code)):
            return False
        return accepts_extension is None or accepts_extension(extension)

    def _accepts_record(self, accepts: AcceptsRecord, offset: int, size: int, is_first: bool) -> bool | None:
        """Return the result of `accepts` for a record; None, which ends the read, if it is cold. Raises
        NotReady if the first one is cold."""
        cold = self._cold(offset, size) if self._readiness.strict else []
        if cold:
            if is_first:
                raise self._readiness.loading(cold)
            return None
        record = self._log.slice(offset, size)
        return record is not None and accepts(record)

    def _views(self, delivery: Delivery) -> list[memoryview]:
        """Return views of the records. Raises NotReady if they must be read from the disk."""
        views: list[memoryview] = []
        cold: list[Chunk] = []
        for stretches in delivery.files:
            segment = self._log.segments.find(stretches.start)
            if segment is not None:
                # Collected over all files, so that the disk is waited for once.
                if self._readiness.strict:
                    cold += self._cold_of(segment, stretches)
                views += stretches.views(segment.view)
        if cold:
            raise self._readiness.loading(cold)
        self._log.note_read(delivery.size)
        return views

    def _cold_of(self, segment: Segment, stretches: Stretches) -> list[Chunk]:
        """Return the chunks of the records that are not resident; if the records are close together, also
        those between them.
        """
        begin, length = stretches.begins[0], stretches.end - stretches.begins[0]
        if self._readiness.knows(segment, begin, length):
            return []
        written = self._log.written_in(segment)
        if length <= CLOSE_TOGETHER * stretches.size:
            return self._readiness.cold(segment, begin, length, written)
        return [
            chunk
            for begin, end in zip(stretches.begins, stretches.ends, strict=True)
            for chunk in self._readiness.cold(segment, begin, end - begin, written)
        ]

    def _cold(self, offset: int, size: int) -> list[Chunk]:
        place = self._log.place(offset, size)
        return [] if place is None else self._readiness.cold(*place, self._log.written_in(place[0]))


def _out_of_range(queue: ConsumeQueue, offset: int) -> tuple[GetStatus, int]:
    """Return the status of a read at an `offset` without messages, and the offset to continue at."""
    if queue.next_offset == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < queue.min_offset:
        return GetStatus.OFFSET_TOO_SMALL, queue.min_offset
    if offset == queue.next_offset:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    return GetStatus.OFFSET_OVERFLOW_BADLY, queue.next_offset
