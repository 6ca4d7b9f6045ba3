"""Lookups in a store: entries and records by offset, messages by key and by store time (Java
`DefaultMessageStore.queryMessage`, `ConsumeQueue.getOffsetInQueueByTime`).

Records that the index finds are compared with the topic, because a reader may not see messages of another
one, but not with the key, because readers filter hash collisions. Offsets whose records are gone are left
out; the second and third attempt that Java makes if all are gone find nothing either.

A search by time uses the first queue file modified at or after the timestamp, otherwise the last one. An
exact match takes precedence, then the nearer neighbour in time, the earlier one on a tie. A time after all
messages yields the offset of the last one, not the end of the queue.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from rmqcli.broker.errors import NotReady
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.dispatch import record_code
from rmqcli.broker.store.index import Index, IndexHits
from rmqcli.broker.store.index_file import Piece
from rmqcli.broker.store.readiness import Readiness
from rmqcli.broker.store.segment import Segment
from rmqcli.broker.store.values import QueryResult
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.reading import scan_record
from rmqcli.codec.store.consume_queue import ENTRY_SIZE, FILLER_SIZE, ExtensionEntry, is_address
from rmqcli.codec.store.delay_levels import DelayLevels
from rmqcli.codec.store.record_layout import MIN_RECORD_SIZE

ITEMS_PER_STEP = 256
LONGEST_RESULT = 15 << 20
"""Maximum number of bytes of records in a result; a frame has at most 16 MiB."""


class KeySearch:
    """A search of the index that advances in steps, because millions of items may share one slot with the
    key."""

    def __init__(
        self, topic: str, items: Iterator[Piece], require: Callable[[Segment, int, int], None]
    ) -> None:
        self.topic = topic
        self.hits = IndexHits([], 0, 0)
        self._items = items
        self._require = require
        self._piece = self._next()

    def advance(self) -> bool:
        """Examine up to `ITEMS_PER_STEP` more items. Return True once there are no more. Call it again after
        NotReady."""
        for _ in range(ITEMS_PER_STEP):
            if self._piece is None:
                return True
            # After NotReady, the same piece is asked for again: the generator must not go on to read it yet.
            self._require(*self._piece)
            self._piece = self._next()
        return False

    def _next(self) -> Piece | None:
        try:
            return next(self._items)
        except StopIteration as end:
            self.hits = end.value or self.hits
            return None


class Search:
    """Finds messages. Raises NotReady if `readiness` is strict and pages have to be read first."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        readiness: Readiness,
        index_file: Callable[[], Awaitable[None]],
        levels: DelayLevels,
    ) -> None:
        """`index_file` provides the file or the pages that index items wait for."""
        self._log = log
        self._queues = queues
        self._index = index
        self._index_file = index_file
        self._readiness = readiness
        self._levels = levels

    def by_key(self, topic: str, key: str, limit: int, begin: int, end: int) -> KeySearch:
        """Return a search for at most `limit` messages stored in [begin, end] ms (second precision)."""
        if self._index is None:
            return KeySearch(topic, iter(()), self._readiness.require)
        if self._readiness.strict and self._index.waits:
            raise NotReady(self._index_file)
        return KeySearch(topic, self._index.query(topic, key, limit, begin, end), self._readiness.require)

    def records(self, search: KeySearch) -> QueryResult:
        """Return the newest records that a search has found, as many as fit into a reply, in log order."""
        hits = search.hits
        if not hits.offsets:
            return QueryResult([], 0, 0)
        records: dict[int, memoryview] = {}
        room = LONGEST_RESULT
        # Newest first, so that what does not fit is older.
        for offset in hits.offsets:
            record = self.record_at(offset)
            if record is not None and _is_of(search.topic, record):
                room -= len(record)
                if room < 0 and records:
                    break
                records[offset] = record
        views = [records[offset] for offset in sorted(records)]
        end = max((offset + len(record) for offset, record in records.items()), default=0)
        return QueryResult(views, hits.last_timestamp, hits.last_offset, end)

    def last_before(self, end: int) -> tuple[int, int] | None:
        """Return offset and size of the last record with a queue entry that ends at or before `end`.
        Blocks."""
        found: tuple[int, int] | None = None
        for queue in self._queues:
            number = min(queue.first_at(end), queue.next_offset) - 1
            while number >= queue.min_offset:
                offset, size, _ = queue.entry(number)
                # A filler between entries is in no order: its end, 2 GiB, may be before `end`.
                if offset + size <= end and size != FILLER_SIZE:
                    found = max(found or (offset, size), (offset, size))
                    break
                number -= 1
        return found if found is not None and found[0] >= self._log.start else None

    def record_at(self, physical_offset: int) -> memoryview | None:
        """Return the record that starts at an offset of the commit log."""
        self._require(self._log, physical_offset, MIN_RECORD_SIZE)
        record = self._log.record(physical_offset)
        if record is not None:
            self._require(self._log, physical_offset, len(record))
        return record

    def record_at_size(self, physical_offset: int, size: int) -> memoryview | None:
        """Return the bytes of a record whose size is known."""
        self._require(self._log, physical_offset, size)
        return self._log.slice(physical_offset, size)

    def _require(self, source: CommitLog | ConsumeQueue, offset: int, count: int) -> None:
        """Raise NotReady if bytes of the log, or entries of a queue, have to be read from the disk first."""
        if self._readiness.strict and (place := source.place(offset, count)) is not None:
            self._readiness.require(*place, source.written_in(place[0]))

    # --- queues

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the first readable offset; 0 for a queue that does not exist."""
        queue = self._queues.find(topic, queue_id)
        return queue.min_offset if queue else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset of the next message; 0 for a queue that does not exist."""
        queue = self._queues.find(topic, queue_id)
        return queue.next_offset if queue else 0

    def consume_queue_entries(
        self, topic: str, queue_id: int, start: int, count: int
    ) -> list[tuple[int, int, int]]:
        """Return at most `count` entries (physical offset, size, tags code) of one queue file.

        The address of an extension entry is replaced by the tags code stored there, otherwise by that in the
        record.
        """
        entries = self.stored_entries(topic, queue_id, start, count)
        return [
            (offset, size, self._code(topic, offset, size, extension) if is_address(code) else code)
            for offset, size, code, extension in entries
        ]

    def stored_entries(
        self, topic: str, queue_id: int, start: int, count: int
    ) -> list[tuple[int, int, int, ExtensionEntry | None]]:
        """Return the same entries as stored, and their extensions."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return []
        first = max(start, queue.min_offset)
        self._require(queue, first, count)
        return [
            (offset, size, code, queue.extended(code, self._readiness.require))
            for offset, size, code in queue.entries(first, count)
        ]

    def _code(self, topic: str, offset: int, size: int, extension: ExtensionEntry | None) -> int:
        """Return the tags code of the extension, otherwise of the record; 0 if neither exists."""
        if extension is not None:
            return extension.tags_code
        record = self.record_at_size(offset, size)
        try:
            return record_code(self._levels, topic, scan_record(record or b""))
        except CorruptionError:
            return 0

    # --- times

    def earliest_store_time(self, topic: str | None = None, queue_id: int = 0) -> int:
        """Return the store time of the first message of a queue or, without a topic, of the log; -1 if there
        is none."""
        if topic is not None:
            return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))
        record = self.record_at(self._log.start)
        return -1 if record is None else self._log.store_timestamp(self._log.start, len(record))

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of a message; -1 if it does not exist."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.next_offset:
            return -1
        self._require(queue, queue_offset, 1)
        offset, size, _ = queue.entry(queue_offset)
        if offset < self._log.start:
            return -1
        self._require(self._log, offset, MIN_RECORD_SIZE)
        return self._log.store_timestamp(offset, size)

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        """Return the offset of the message stored nearest to `timestamp` (code 29); 0 for a queue without
        files."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.segments.segments:
            return 0
        segments = queue.segments.segments
        later = (one for one in segments if self._readiness.modified_ms(segments, one) >= timestamp)
        chosen = next(later, segments[-1])
        first = max(chosen.start // ENTRY_SIZE, queue.min_offset)
        last = min(chosen.end // ENTRY_SIZE, queue.next_offset)
        if first >= last:
            return min(first, queue.next_offset)
        # Messages whose records are gone have the time -1, and so sort before all others.
        time_of = partial(self.store_time, topic, queue_id)
        right = first + bisect_left(range(first, last), timestamp, key=time_of)
        if right == first:
            return first
        if right == last:
            return last - 1
        above, below = time_of(right), time_of(right - 1)
        return right if above == timestamp or above - timestamp < timestamp - below else right - 1


def _is_of(topic: str, record: memoryview) -> bool:
    """Return True if a record belongs to a topic."""
    try:
        return scan_record(record).topic.decode("utf-8", "replace") == topic
    except CorruptionError:
        return False
