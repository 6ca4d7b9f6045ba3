"""From a stored record to its queue entry and index entries (Java `ReputMessageService`,
`CommitLogDispatcher`).

Used when records are read back: on recovery. A send dispatches the same way without reading its record again.
Prepared and rolled-back transaction messages get no entry, rolled-back ones no index entry.
"""

from __future__ import annotations

from functools import lru_cache

from broker.store.consume_queue import QueueGap
from broker.store.consume_queues import ConsumeQueues
from broker.store.deleted_topics import DeletedTopics
from broker.store.index import Index
from codec.properties import decode_properties
from codec.store.delay_levels import DelayLevels
from codec.store.dispatch import entry_tags_code, has_index_items, has_queue_entry, index_hashes
from codec.store.record import RecordScan


@lru_cache(maxsize=4096)
def _topic_text(topic: bytes) -> str:
    return topic.decode("utf-8", "replace")


def record_code(levels: DelayLevels, topic: str, scan: RecordScan) -> int:
    """The tags code or delivery time that the queue entry of a stored record has."""
    return entry_tags_code(topic, decode_properties(scan.properties), scan.store_timestamp, levels)


class Dispatcher:
    """Puts queue entries and index items that do not exist yet. `gaps` collects queues that must be rebuilt.

    `partial` says that dispatching begins behind the start of the log, so that entries of an empty queue may
    be missing before. `indexed` is the offset of the last message that the index knows.
    """

    def __init__(
        self, queues: ConsumeQueues, index: Index | None, levels: DelayLevels, deleted: DeletedTopics
    ) -> None:
        self._queues = queues
        self._deleted = deleted
        self._index = index
        self._levels = levels
        self.indexed = -1
        self.gaps: set[tuple[str, int]] = set()
        self.partial = False

    def put_entry(self, offset: int, scan: RecordScan) -> None:
        topic = _topic_text(scan.topic)
        if not has_queue_entry(scan.sys_flag) or self._deleted.has(topic, offset):
            return
        queue = self._queues.ensure(topic, scan.queue_id)
        if offset + scan.total_size <= queue.max_physical_offset:
            return
        if scan.queue_offset == 0 and queue.next_offset:  # the topic was deleted and created again
            self._queues.destroy([queue])
            queue = self._queues.ensure(queue.topic, queue.queue_id)
        if self.partial and scan.queue_offset and not queue.segments.segments:
            self.gaps.add((queue.topic, queue.queue_id))
            return
        try:
            code = record_code(self._levels, queue.topic, scan)
            queue.put(scan.queue_offset, offset, scan.total_size, code, scan.store_timestamp)
        except QueueGap:
            self.gaps.add((queue.topic, queue.queue_id))

    def compare_entry(self, offset: int, scan: RecordScan) -> None:
        """Notes the queue of a record as a gap if it lacks the record's entry."""
        key = _topic_text(scan.topic), scan.queue_id
        if not has_queue_entry(scan.sys_flag) or self._deleted.has(key[0], offset):
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

    def put_entry_of(self, wanted: set[tuple[str, int]], offset: int, scan: RecordScan) -> None:
        """Like `put_entry`, for some queues only."""
        if (_topic_text(scan.topic), scan.queue_id) in wanted:
            self.put_entry(offset, scan)
