"""From a stored record to its queue entry and index entries (Java `ReputMessageService`,
`CommitLogDispatcher`).

Used when records are read back: on recovery. A send dispatches the same way without reading its record again.
Prepared and rolled-back transaction messages get no entry, rolled-back ones no index entry. Neither does a
record whose topic or queue cannot name a folder: it is damaged, as no CRC covers them.
"""

from __future__ import annotations

import logging
from functools import lru_cache

from broker.store.consume_queue import QueueGap
from broker.store.consume_queues import ConsumeQueues
from broker.store.deleted_topics import DeletedTopics
from broker.store.index import Index
from broker.store.queue_order import MAX_QUEUE_OFFSET, QueueOrder
from codec.core.record import RecordScan
from codec.properties import decode_properties
from codec.store.delay_levels import DelayLevels
from codec.store.dispatch import entry_tags_code, has_index_items, has_queue_entry, index_hashes
from codec.store.file_names import is_queue_folder

_Queue = tuple[str, int]
_Entry = tuple[int, int, int, int]
"""Commit-log offset, size and tags code of a record, and its store timestamp."""
_log = logging.getLogger(__name__)


@lru_cache(maxsize=65536)
def _queue_named(topic: bytes, queue_id: int) -> tuple[str, int, bool]:
    """Topic and ID, and whether there can be such a queue."""
    text = topic.decode("utf-8", "replace")
    return text, queue_id, is_queue_folder(text, queue_id)


def record_code(levels: DelayLevels, topic: str, scan: RecordScan) -> int:
    """Return the tags code or delivery time that the queue entry of a stored record has."""
    return entry_tags_code(topic, decode_properties(scan.properties), scan.store_timestamp, levels)


class Dispatcher:
    """Puts queue entries and index items that do not exist yet. `gaps` collects queues that must be rebuilt.

    `partial` says that dispatching begins behind the start of the log, so that entries of an empty queue may
    be missing before. `indexed` is the offset of the last message that the index knows.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        index: Index | None,
        levels: DelayLevels,
        deleted: DeletedTopics,
        unserved: frozenset[str] = frozenset(),
    ) -> None:
        """Records of topics that are `unserved` get no entries."""
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
        """Topic and ID of the queue in which a record has an entry; None if it has none."""
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
        if offset + scan.total_size <= queue.max_physical_offset:
            return
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
        """Note the queue of a record as a gap if it lacks the record's entry."""
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
        """Give a record its entry in one of some queues that are built again; `end_rebuild` follows."""
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
        """Give the last records their entries, and names those that have none."""
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
        if queue.segments.segments:
            queue.skip_to(queue_offset)
        if entry is None:
            queue.skip_to(queue_offset + 1)
        else:
            queue.put(queue_offset, *entry)
