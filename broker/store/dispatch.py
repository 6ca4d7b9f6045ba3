"""The dispatch of stored records: queue entries and index items (Java `ReputMessageService`,
`CommitLogDispatcher`).

Used on recovery, when records are read back. A send dispatches in the same way without reading its record
again. Prepared and rolled-back transaction messages get no queue entry; rolled-back ones get no index items.
A record whose topic or queue cannot name a folder gets no queue entry either: it is damaged, which no CRC
detects in these fields.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Generic, TypeVar

from rmqcli.broker.store.checkpoint import DeletedTopics
from rmqcli.broker.store.consume_queue import QueueGap
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.index import Index
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.dispatch import entry_tags_code, has_index_items, has_queue_entry, index_hashes
from rmqcli.codec.store.delay_levels import DelayLevels
from rmqcli.codec.store.file_names import is_queue_folder

T = TypeVar("T")

# The queue offsets of the records of one queue when it is rebuilt from the log.
#
# No CRC covers the queue offset of a record, its queue or its topic. One that does not continue its queue
# waits for those that follow: if the next one continues it, records are missing before it; if the next one
# continues what was before, it is damaged, and its place stays empty. So one flipped bit hides one message,
# and not all that follow it.

MOST_MISSING = 1 << 20
"""Maximum number of queue offsets that may be missing in a row; a larger gap means that the number is
damaged."""
MOST_WAITING = 1024
"""Maximum number of records that wait for confirmation of their queue offsets; beyond that, all of them are
misplaced."""
MAX_QUEUE_OFFSET = (1 << 56) - 1


class QueueOrder(Generic[T]):
    """Assigns queue offsets to the records of a queue, which are added in log order.

    No CRC covers the queue offset of a record, so it counts only once neighbouring records confirm it. An
    assigned offset below `next_offset` means that the queue begins again there: its topic was deleted and
    created. `misplaced` holds records whose queue offsets are impossible.
    """

    __slots__ = ("_waiting", "misplaced", "next_offset")

    def __init__(self) -> None:
        self.next_offset = -1
        """-1 until a queue offset is assigned."""
        self._waiting: list[tuple[int, T]] = []
        self.misplaced: list[T] = []

    def add(self, queue_offset: int, record: T) -> list[tuple[int, T]]:
        """Add the next record. Return the records whose queue offsets are now certain, with these offsets."""
        waiting = self._waiting
        # A queue that does not begin at 0 lost its first records to retention: a second one must confirm it.
        if not waiting and queue_offset == max(self.next_offset, 0):
            self.next_offset = queue_offset + 1
            return [(queue_offset, record)]
        waiting.append((queue_offset, record))
        if self._continues_what_was_placed(queue_offset):
            return self._place(1)
        if len(waiting) > 1 and self._follow_each_other():
            return self._place(2)
        if len(waiting) > MOST_WAITING:
            self.misplaced += [one for _, one in waiting]
            # Their places stay empty, so that the records after them keep their own.
            self.next_offset += len(waiting) if self.next_offset >= 0 else 0
            waiting.clear()
        return []

    def finish(self) -> list[tuple[int, T | None]]:
        """Return the queue offsets of the remaining records. None in place of a record means that an offset
        stays empty, because it may have been assigned.
        """
        placed: list[tuple[int, T | None]] = []
        for queue_offset, record in self._waiting:
            ahead = queue_offset - self.next_offset
            is_first = self.next_offset < 0 and 0 <= queue_offset <= MAX_QUEUE_OFFSET
            # Nothing follows that could confirm these. With 0, a topic that was deleted begins again.
            if is_first or queue_offset == 0 or (self.next_offset >= 0 and 0 <= ahead <= MOST_WAITING):
                placed.append((queue_offset, record))
                self.next_offset = queue_offset + 1
                continue
            self.misplaced.append(record)
            if self.next_offset >= 0:
                placed.append((self.next_offset, None))
                self.next_offset += 1
        self._waiting = []
        return placed

    def _continues_what_was_placed(self, queue_offset: int) -> bool:
        """Return True if there are enough queue offsets before this one for all records that wait before
        it."""
        return self.next_offset >= 0 and 0 <= queue_offset - self.next_offset < len(self._waiting)

    def _follow_each_other(self) -> bool:
        (before, _), (last, _) = self._waiting[-2:]
        if last != before + 1 or not 0 <= before < MAX_QUEUE_OFFSET:
            return False
        return self.next_offset < 0 or before - self.next_offset <= MOST_MISSING

    def _place(self, count: int) -> list[tuple[int, T]]:
        """Assign the last `count` records their offsets, and earlier ones too if they fit in
        consecutively."""
        placed, rest = self._waiting[-count:], self._waiting[:-count]
        first = placed[0][0] - len(rest)
        # A record that waited is placed if it counts up to the first certain one without a gap.
        fits = [first + at == offset >= self.next_offset for at, (offset, _) in enumerate(rest)]
        self.misplaced += [one for (_, one), fit in zip(rest, fits, strict=True) if not fit]
        self._waiting = []
        self.next_offset = placed[-1][0] + 1
        return [one for one, fit in zip(rest, fits, strict=True) if fit] + placed


_Queue = tuple[str, int]
_Entry = tuple[int, int, int, int]
"""Commit-log offset, size, tags code and store timestamp of a record."""
_log = logging.getLogger(__name__)


@lru_cache(maxsize=65536)
def _queue_named(topic: bytes, queue_id: int) -> tuple[str, int, bool]:
    """Return topic and queue id, and True if such a queue is possible."""
    text = topic.decode("utf-8", "replace")
    return text, queue_id, is_queue_folder(text, queue_id)


def record_code(levels: DelayLevels, topic: str, scan: RecordScan) -> int:
    """Return the tags code or delivery time for the queue entry of a stored record."""
    return entry_tags_code(topic, decode_properties(scan.properties), scan.store_timestamp, levels)


class Dispatcher:
    """Adds queue entries and index items that do not exist yet. `gaps` collects queues that must be rebuilt.

    `partial` is True if dispatching begins after the start of the log, so that earlier entries of an empty
    queue may be missing. `indexed` is the offset of the last message in the index.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        index: Index | None,
        levels: DelayLevels,
        deleted: DeletedTopics,
        unserved: frozenset[str] = frozenset(),
    ) -> None:
        """Prepare for a log; records of `unserved` topics get no entries."""
        self._unserved = unserved
        self._queues = queues
        self._deleted = deleted
        self._index = index
        self._levels = levels
        self.indexed = -1
        self.gaps: set[_Queue] = set()
        self.partial = False
        self._orders: dict[_Queue, QueueOrder[_Entry]] = {}

    def _queue_of(self, offset: int, scan: RecordScan) -> _Queue | None:
        """Return topic and id of the queue in which a record has an entry; None if it has none."""
        topic, queue_id, is_possible = _queue_named(scan.topic, scan.queue_id)
        if not has_queue_entry(scan.sys_flag) or self._deleted.has(topic, offset) or topic in self._unserved:
            return None
        if not is_possible:
            text = "the record at %d of the commit log is damaged: there is no topic %r with a queue %d"
            _log.warning(text, offset, topic, queue_id)
            return None
        return topic, queue_id

    def put_entry(self, offset: int, scan: RecordScan) -> None:
        key = self._queue_of(offset, scan)
        if key is None or key in self.gaps:
            return
        queue = self._queues.ensure(*key)
        # Entries are in log order, so that this record has one if a later record has.
        if offset + scan.total_size <= queue.max_physical_offset:
            return
        # A walk that begins in the middle of the log does not see the first records of a queue without files:
        # such a queue is rebuilt from the whole log.
        may_begin = scan.queue_offset == 0 or (not self.partial and 0 < scan.queue_offset <= MAX_QUEUE_OFFSET)
        if not (queue.segments.segments or may_begin):
            self.gaps.add(key)
            return
        try:
            code = record_code(self._levels, queue.topic, scan)
            queue.put(scan.queue_offset, offset, scan.total_size, code, scan.store_timestamp)
        except QueueGap:
            self.gaps.add(key)

    def compare_entry(self, offset: int, scan: RecordScan) -> None:
        """Add the queue of a record to `gaps` if the record's entry is missing or differs."""
        key = self._queue_of(offset, scan)
        if key is None:
            return
        queue = self._queues.find(*key)
        if key not in self.gaps and not (
            queue is not None
            and queue.holds(
                scan.queue_offset, offset, scan.total_size, record_code(self._levels, key[0], scan)
            )
        ):
            self.gaps.add(key)

    def put_index(self, offset: int, scan: RecordScan) -> None:
        if self._index is None or offset <= self.indexed or not has_index_items(scan.sys_flag):
            return
        hashes = index_hashes(scan, decode_properties(scan.properties))
        if hashes:
            self._index.add(hashes, offset, scan.store_timestamp)

    def rebuild_entry(self, wanted: set[_Queue], offset: int, scan: RecordScan) -> None:
        """Add the entry of a record if its queue is one of those being rebuilt; call `end_rebuild` at the
        end."""
        key = self._queue_of(offset, scan)
        if key not in wanted or key is None:
            return
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = QueueOrder()
        code = record_code(self._levels, key[0], scan)
        for place in order.add(scan.queue_offset, (offset, scan.total_size, code, scan.store_timestamp)):
            self._put_at(key, *place)

    def end_rebuild(self) -> None:
        """Add the entries of the last records, and log those that get none."""
        for key, order in self._orders.items():
            for place in order.finish():
                self._put_at(key, *place)
            if order.misplaced:
                text = "%s-%d: the queue offsets of %d records of the commit log cannot be, from the one at %d on"
                _log.error(text, *key, len(order.misplaced), order.misplaced[0][0])
        self._orders = {}

    def _put_at(self, key: _Queue, queue_offset: int, entry: _Entry | None) -> None:
        queue = self._queues.ensure(*key)
        if queue_offset < queue.next_offset:  # the topic was deleted and created again
            self._queues.destroy([queue])
            queue = self._queues.ensure(*key)
        # An empty queue begins at any offset (`ConsumeQueue.put`), without fillers for all earlier files.
        if queue.segments.segments:
            queue.skip_to(queue_offset)
        if entry is None:
            queue.skip_to(queue_offset + 1)
        else:
            queue.put(queue_offset, *entry)
