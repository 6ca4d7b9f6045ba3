"""From a stored record to its queue unit and index entries (Java `ReputMessageService`, `CommitLogDispatcher`).

Used when records are read back: on recovery. A send dispatches the same way without reading its record again.
Prepared and rolled-back transaction messages get no unit, rolled-back ones no index entry.
"""

from __future__ import annotations

from functools import lru_cache

from broker.store.config import delay_table
from broker.store.consume_queue import ConsumeQueue, QueueGap
from broker.store.consume_queues import ConsumeQueues
from broker.store.index import Index
from codec.hashing import tags_code
from codec.names import SystemTopic
from codec.properties import PropertyName, decode_properties
from codec.store.record import RecordScan

__all__ = ["TRANSACTION_PREPARED", "TRANSACTION_ROLLBACK", "DeliverTimes", "Dispatcher", "record_code"]

TRANSACTION_PREPARED = 4
TRANSACTION_ROLLBACK = 12
TRANSACTION_BITS = 12
UNKNOWN_LEVEL_MS = 1_000


class DeliverTimes:
    """When a delayed message is due: units of SCHEDULE_TOPIC_XXXX hold this instead of a tags code."""

    __slots__ = ("_levels",)

    def __init__(self, levels: str) -> None:
        self._levels = delay_table(levels)

    def code(self, properties: dict[str, str], store_timestamp: int, otherwise: int) -> int:
        """Deliver time in ms by the DELAY property (levels above the last count as the last), else `otherwise`."""
        text = properties.get(PropertyName.DELAY, "")
        level = min(int(text), len(self._levels)) if text.isdecimal() else 0
        if level <= 0:
            return otherwise
        return store_timestamp + self._levels[level - 1]


@lru_cache(maxsize=4096)
def _topic_text(topic: bytes) -> str:
    return topic.decode("utf-8", "replace")


def record_code(deliver_times: DeliverTimes, topic: str, scan: RecordScan) -> int:
    """The tags code or deliver time that the queue unit of a stored record has."""
    properties = decode_properties(scan.properties)
    code = tags_code(properties.get(PropertyName.TAGS))
    if topic == SystemTopic.SCHEDULE:
        return deliver_times.code(properties, scan.store_timestamp, code)
    return code


class Dispatcher:
    """Puts units and index entries that are not there yet. `gaps` collects queues whose units must be rebuilt.

    `partial` says that dispatching begins behind the start of the log, so that an empty queue may lack units before.
    `indexed` is the offset of the last message that the index knows.
    """

    def __init__(self, queues: ConsumeQueues, index: Index | None, deliver_times: DeliverTimes) -> None:
        self._queues = queues
        self._index = index
        self._deliver_times = deliver_times
        self.indexed = -1
        self.gaps: set[tuple[str, int]] = set()
        self.partial = False

    def put_unit(self, offset: int, scan: RecordScan) -> None:
        if scan.sys_flag & TRANSACTION_PREPARED:
            return
        queue = self._queues.ensure(_topic_text(scan.topic), scan.queue_id)
        if offset + scan.total_size <= queue.max_physical_offset:
            return
        if scan.queue_offset == 0 and queue.next_offset:
            queue = self._restart(queue)
        if self.partial and scan.queue_offset and not queue.segments.segments:
            self.gaps.add((queue.topic, queue.queue_id))
            return
        try:
            code = record_code(self._deliver_times, queue.topic, scan)
            queue.put(scan.queue_offset, offset, scan.total_size, code, scan.store_timestamp)
        except QueueGap:
            self.gaps.add((queue.topic, queue.queue_id))

    def _restart(self, queue: ConsumeQueue) -> ConsumeQueue:
        """A younger record with queue offset 0: the topic was deleted and made again in between."""
        self._queues.destroy_queue(queue)
        return self._queues.ensure(queue.topic, queue.queue_id)

    def put_index(self, offset: int, scan: RecordScan) -> None:
        if (
            self._index is None
            or offset <= self.indexed
            or scan.sys_flag & TRANSACTION_BITS == TRANSACTION_ROLLBACK
        ):
            return
        properties = decode_properties(scan.properties)
        uniq_key, keys = properties.get(PropertyName.UNIQ_KEY), properties.get(PropertyName.KEYS)
        if uniq_key or keys:
            self._index.add(_topic_text(scan.topic), uniq_key, keys, offset, scan.store_timestamp)

    def put_unit_of(self, wanted: set[tuple[str, int]], offset: int, scan: RecordScan) -> None:
        """Like `put_unit`, for some queues only."""
        if (_topic_text(scan.topic), scan.queue_id) in wanted:
            self.put_unit(offset, scan)

    def queue_of(self, key: tuple[str, int]) -> ConsumeQueue | None:
        return self._queues.find(*key)
