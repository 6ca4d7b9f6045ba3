"""Reads of one queue: a window of entries, filtered, and the records they point at (Java
`DefaultMessageStore.getMessage`).

The window is `max(16000, max_nums * 20)` bytes of entries, here at most 64,000, and ends with the queue file.
A batch is full by count or bytes; the limits are smaller for records that are far behind the log's end ("in
disk": more than 40 % of the machine's RAM). Neighbouring records are returned as one view.

Most pulls take the next messages of a queue as they are. So the next entries are first looked at together: if
the loop over them would take each, they are taken without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.store.commit_log import CommitLog
from broker.store.config import StoreConfig, physical_memory
from broker.store.consume_queue import ConsumeQueue
from broker.store.consume_queues import ConsumeQueues
from broker.store.entry_runs import MOST_AT_ONCE, EntryRun
from broker.store.queue_entries import entries_at
from broker.store.readiness import Chunk, Readiness
from broker.store.segment import Segment
from broker.store.values import GetResult, GetStatus
from codec.store.consume_queue import ENTRY_SIZE
from codec.store.consume_queue_ext import HIGHEST_ADDRESS, ExtensionEntry

WINDOW_BYTES = 16_000
LONGEST_WINDOW = 64_000
CLOSE_TOGETHER = 8
"""Records lie close together if they take at least one of so many bytes from the first to the last."""
_NOTHING_REMOVED = -(1 << 63)
"""Less than any offset in the log that an entry can name."""

Place = tuple[Segment, int, int]
AcceptsCode = Callable[[int], bool]
AcceptsRecord = Callable[[memoryview], bool]
AcceptsExtension = Callable[[ExtensionEntry | None], bool]
"""Judges the extension of a queue entry; None: it has none."""


class Reader:
    """Serves `MessageStore.get`. NotReady when `readiness` is strict and pages have to be read first."""

    def __init__(
        self, config: StoreConfig, log: CommitLog, queues: ConsumeQueues, readiness: Readiness
    ) -> None:
        self._log = log
        self._queues = queues
        self._readiness = readiness
        self.configure(config)

    def configure(self, config: StoreConfig) -> None:
        """Applies the limits of a configuration."""
        self._memory_limit = physical_memory() * config.access_message_in_memory_max_ratio // 100
        self._in_memory = (
            config.max_transfer_bytes_on_message_in_memory,
            config.max_transfer_count_on_message_in_memory,
        )
        self._in_disk = (
            config.max_transfer_bytes_on_message_in_disk,
            config.max_transfer_count_on_message_in_disk,
        )

    def is_in_disk(self, physical_offset: int) -> bool:
        """True for a record more than 40 % of the RAM behind the end: Java takes it as not in memory."""
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
        """Records of a queue from `offset` on, at most `max_nums` (always the first, whatever its size).

        They are filtered by tags code, by the queue's extension, and then by record.
        """
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
        refusal = _range_status(queue, offset)
        if refusal is not None:
            status, begin = refusal
            return GetResult(status, begin, queue.min_offset, queue.next_offset, [])
        place = self._window(queue, offset, max_nums)
        if accepts_record is None and accepts_extension is None:
            batch = self._next_ones(place, max_nums, accepts_code)
            if batch is not None:
                return self._result(queue, offset, batch.count, batch, GetStatus.FOUND, False)
        return self._scan(queue, place, offset, max_nums, accepts_code, accepts_record, accepts_extension)

    def _scan(
        self,
        queue: ConsumeQueue,
        place: Place | None,
        offset: int,
        max_nums: int,
        accepts_code: AcceptsCode | None,
        accepts_record: AcceptsRecord | None,
        accepts_extension: AcceptsExtension | None,
    ) -> GetResult:
        log = self._log
        status = GetStatus.NO_MATCHED_MESSAGE
        batch = _Batch(log)
        starts: list[int] = []
        ends: list[int] = []
        files: list[tuple[memoryview, int]] = []
        on_disk_before = log.end - self._memory_limit
        in_memory, in_disk = self._limits(max_nums)
        # names of this function, since each record is looked at here
        count = total = low = high = physical = scanned = 0
        removed_before, last_end = _NOTHING_REMOVED, -1
        for physical, size, code in entries_at(place):
            if physical < removed_before:
                scanned += 1
                continue
            most, most_bytes = in_disk if physical < on_disk_before else in_memory
            if count and (count >= most or total + size > most_bytes):
                break
            scanned += 1
            if (
                accepts_code is not None
                and not accepts_code(code)
                and (code > HIGHEST_ADDRESS or not self._passes(queue, code, accepts_code))
            ) or (
                accepts_extension is not None
                and not accepts_extension(queue.extended(code, self._readiness.require))
            ):
                continue
            end = physical + size
            if not low <= physical <= end <= high:
                if not batch.goes_to(physical, size):
                    if not count:
                        status = GetStatus.MESSAGE_WAS_REMOVING
                    removed_before = log.next_file(physical)
                    continue
                low, high, last_end = batch.low, batch.high, -1
            removed_before = _NOTHING_REMOVED
            if accepts_record is not None:
                if self._must_stop(physical, size, scanned):
                    scanned -= 1
                    break
                record = log.slice(physical, size)
                if record is None or not accepts_record(record):
                    continue
            if physical == last_end:
                ends[-1] = end
            else:
                starts.append(physical)
                ends.append(end)
                files.append(batch.file)
            last_end = end
            count += 1
            total += size
        batch.starts, batch.ends, batch.files = starts, ends, files
        batch.count, batch.size = count, total
        return self._result(queue, offset, scanned, batch, status, physical < on_disk_before)

    def _next_ones(
        self, place: Place | None, max_nums: int, accepts_code: AcceptsCode | None
    ) -> _Batch | None:
        """The next records if all of them are wanted, are in memory and follow one another in one file of the
        log, and do not fill a batch by their bytes; None otherwise."""
        (most, most_bytes), _ = self._limits(max_nums)
        present = 0 if place is None else place[2] // ENTRY_SIZE
        if place is None or not present or not 0 < most < MOST_AT_ONCE:
            return None
        entries = EntryRun(place[0].view, place[1], present, most)
        stretches, size = entries.stretches(), sum(entries.sizes)
        if stretches is None or size > most_bytes:
            return None
        batch = _Batch(self._log)
        starts, ends = batch.starts, batch.ends = stretches
        on_disk_before = self._log.end - self._memory_limit
        if starts[0] < on_disk_before or -1 < entries.following < on_disk_before:
            return None
        if not batch.goes_to(starts[0], ends[-1] - starts[0]):
            return None
        if accepts_code is not None and not all(map(accepts_code, entries.codes)):
            return None
        batch.count, batch.size = len(entries.sizes), size
        return batch

    def _result(
        self,
        queue: ConsumeQueue,
        offset: int,
        scanned: int,
        batch: _Batch,
        status: GetStatus,
        is_behind_on_disk: bool,
    ) -> GetResult:
        """The result; `status` is for one without records. NotReady if records must be read from the disk."""
        if not scanned:
            begin = queue.next_file_offset(offset)
            return GetResult(GetStatus.OFFSET_FOUND_NULL, begin, queue.min_offset, queue.next_offset, [])
        if batch.count:
            status = GetStatus.FOUND
            self._require_records(batch)
        return GetResult(
            status,
            offset + scanned,
            queue.min_offset,
            queue.next_offset,
            batch.views(),
            batch.count,
            batch.size,
            is_behind_on_disk,
            batch.ends[-1] if batch.count else 0,
        )

    def _passes(self, queue: ConsumeQueue, address: int, accepts_code: AcceptsCode) -> bool:
        """True if the tags code at an address is wanted; one that cannot be found may be, as in Java."""
        extension = queue.extended(address, self._readiness.require)
        return extension is None or accepts_code(extension.tags_code)

    def _window(self, queue: ConsumeQueue, offset: int, max_nums: int) -> Place | None:
        """The place of the entries to look at; NotReady if they must be read from the disk."""
        place = queue.place(
            offset, min(max(WINDOW_BYTES, max_nums * ENTRY_SIZE), LONGEST_WINDOW) // ENTRY_SIZE
        )
        if place is not None and self._readiness.strict and not self._readiness.knows(*place):
            self._readiness.require(*place, queue.written_in(place[0]))
        return place

    def _limits(self, max_nums: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Most records and bytes of a batch, in memory and on the disk."""
        (memory_bytes, memory), (disk_bytes, disk) = self._in_memory, self._in_disk
        return (min(memory, max_nums), memory_bytes), (min(disk, max_nums), disk_bytes)

    def _require_records(self, batch: _Batch) -> None:
        """Counts the records that were found; NotReady if they must be read from the disk."""
        if self._readiness.strict:
            cold = self._cold_of(batch)
            if cold:
                raise self._readiness.loading(cold)
        self._log.note_read(batch.size)

    def _cold_of(self, batch: _Batch) -> list[Chunk]:
        """The chunks of the records that are not resident, and of all between records close together."""
        start, end = batch.starts[0], batch.ends[-1]
        place = self._log.place(start, end - start)
        if place is not None and place[2] == end - start:
            if self._readiness.knows(*place):
                return []
            if end - start <= CLOSE_TOGETHER * batch.size:
                return self._readiness.cold(*place, self._log.written_in(place[0]))
        return [
            chunk
            for start, end in zip(batch.starts, batch.ends, strict=True)
            for chunk in self._cold(start, end - start)
        ]

    def _must_stop(self, offset: int, size: int, scanned: int) -> bool:
        """True if a record is cold: the result ends before it. NotReady if it is the first."""
        cold = self._cold(offset, size) if self._readiness.strict else []
        if cold and scanned == 1:
            raise self._readiness.loading(cold)
        return bool(cold)

    def _cold(self, offset: int, size: int) -> list[Chunk]:
        place = self._log.place(offset, size)
        return [] if place is None else self._readiness.cold(*place, self._log.written_in(place[0]))


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
    """Records found so far, as runs [starts[n], ends[n]) of the log that each lie in one file, files[n]; without
    `files`, all lie in the last one.

    The log holds [low, high) of the file that the last record is in.
    """

    __slots__ = ("_log", "count", "ends", "file", "files", "high", "low", "size", "starts")

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self.low = self.high = 0
        self.file = (memoryview(b""), 0)
        """The content of the file, and its start."""
        self.starts: Sequence[int] = ()
        self.ends: Sequence[int] = ()
        self.files: Sequence[tuple[memoryview, int]] = ()
        self.count = self.size = 0

    def goes_to(self, offset: int, size: int) -> bool:
        """Goes to the file of a record; False if the log does not hold the record."""
        segment = self._log.segments.find(offset)
        if segment is None:
            return False
        self.low, self.high = segment.start, min(segment.end, self._log.end)
        self.file = segment.view, segment.start
        return offset <= offset + size <= self.high

    def views(self) -> list[memoryview]:
        """One view for each run."""
        if not self.files:
            view, base = self.file
            return [
                view[start - base : end - base] for start, end in zip(self.starts, self.ends, strict=True)
            ]
        return [
            view[start - base : end - base]
            for (view, base), start, end in zip(self.files, self.starts, self.ends, strict=True)
        ]
