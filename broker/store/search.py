"""Messages by key and by store time (Java `DefaultMessageStore.queryMessage`,
`ConsumeQueue.getOffsetInQueueByTime`).

What the index finds is not compared with the key: readers filter hash collisions. Offsets whose records are
gone are left out; Java's second and third round for the case that all are gone find nothing either.

By time, the first queue file modified at or after the timestamp is searched, else the last one. An exact hit
wins, else the nearer neighbour in time, the left one on a tie; a time behind all messages gives the last
one's offset, not the queue's end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable

from broker.errors import NotReady
from broker.store.commit_log import CommitLog
from broker.store.consume_queue import ConsumeQueue
from broker.store.index import Index
from broker.store.readiness import Readiness
from broker.store.values import QueryResult
from codec.store.consume_queue import ENTRY_SIZE
from codec.store.record_layout import MIN_RECORD_SIZE


class Search:
    """Finds messages. Raises NotReady when `readiness` is strict and pages have to be read first."""

    def __init__(
        self,
        log: CommitLog,
        index: Index | None,
        readiness: Readiness,
        index_file: Callable[[], Awaitable[None]],
    ) -> None:
        """`index_file` creates the file that index items wait for."""
        self._log = log
        self._index = index
        self._index_file = index_file
        self._readiness = readiness

    def by_key(self, topic: str, key: str, limit: int, begin: int, end: int) -> QueryResult:
        """At most `limit` records stored in [begin, end] ms (second precision), by ascending commit log
        offset.
        """
        if self._index is None:
            return QueryResult([], 0, 0)
        if self._readiness.strict and self._index.waits:
            raise NotReady(self._index_file)
        hits = self._index.query(topic, key, limit, begin, end, self._readiness.require)
        if not hits.offsets:
            return QueryResult([], 0, 0)
        records = [record for offset in sorted(hits.offsets) if (record := self.record(offset)) is not None]
        return QueryResult(records, hits.last_timestamp, hits.last_offset)

    def record(self, offset: int) -> memoryview | None:
        """The record that starts at `offset`; None if there is none."""
        self.require(offset, MIN_RECORD_SIZE)
        record = self._log.record(offset)
        if record is not None:
            self.require(offset, len(record))
        return record

    def record_of_size(self, offset: int, size: int) -> memoryview | None:
        """The bytes of a record whose size is known."""
        self.require(offset, size)
        return self._log.slice(offset, size)

    def require(self, offset: int, size: int) -> None:
        """NotReady if bytes of the log have to be read from the disk first."""
        if self._readiness.strict and (place := self._log.place(offset, size)) is not None:
            self._readiness.require(*place, self._log.written_in(place[0]))

    def require_entries(self, queue: ConsumeQueue, queue_offset: int, count: int) -> None:
        """The same for entries of a queue."""
        if self._readiness.strict and (place := queue.place(queue_offset, count)) is not None:
            self._readiness.require(*place, queue.written_in(place[0]))

    def store_time(self, queue: ConsumeQueue | None, queue_offset: int) -> int:
        """Store time in ms of a queue's message; -1 if there is none."""
        if queue is None or not queue.min_offset <= queue_offset < queue.next_offset:
            return -1
        self.require_entries(queue, queue_offset, 1)
        offset, size, _ = queue.entry(queue_offset)
        if offset < self._log.start:
            return -1
        self.require(offset, MIN_RECORD_SIZE)
        return self._log.store_timestamp(offset, size)

    def offset_by_time(self, queue: ConsumeQueue | None, timestamp: int) -> int:
        """Queue offset nearest to `timestamp` (ms); 0 for a queue without files."""
        if queue is None or not queue.segments.segments:
            return 0
        segments = queue.segments.segments
        later = (one for one in segments if self._readiness.modified_ms(segments, one) >= timestamp)
        chosen = next(later, segments[-1])
        first = max(chosen.start // ENTRY_SIZE, queue.min_offset)
        last = min(chosen.end // ENTRY_SIZE, queue.next_offset)
        if first >= last:
            return min(first, queue.next_offset)
        right = first + bisect_left(
            range(first, last), timestamp, key=lambda number: self.store_time(queue, number)
        )
        if right == first:
            return first
        if right == last:
            return last - 1
        above, below = self.store_time(queue, right), self.store_time(queue, right - 1)
        return right if above == timestamp or above - timestamp < timestamp - below else right - 1
