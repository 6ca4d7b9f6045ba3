"""The records in which a Java broker keeps messages in flight (`rmq_sys_REVIVE_LOG_<cluster>`, Java class
`PopReviveService`), read from a folder that such a broker left.

A record of a check point becomes visible a second before the time of its messages is over, one of an
acknowledgement at that time, as timer messages do; so a broker that takes over still reads some of them.
Acknowledgements that come before the record of their check point are kept until then.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.services.pop.in_flight import InFlight, PopQueue
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.pop import PopAck, PopCheckPoint
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.errors import CodecError
from rmqcli.codec.names import REVIVE_GROUP, REVIVE_PREFIX
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.receipt_handle import ReceiptHandle
from rmqcli.codec.records.reading import decode_record

BATCH = 64
GRACE_MS: Final = 3000
"""Time for acknowledgements to become visible."""
MOST_EARLY = 65_536
"""Maximum number of acknowledgements that are kept for their check point."""

_CHECK_POINT, _ACK, _BATCH_ACK = "ck", "ack", "bAck"
_Early = tuple[str, str, int, int, int]
"""Group, topic in which the message is stored, queue id, offset and pop time."""
_log = logging.getLogger(__name__)


def offsets_of(point: PopCheckPoint) -> list[int]:
    """Return the offsets of a check point that are not acknowledged."""
    distances: Sequence[int] = point.distances or range(point.num)
    pairs = enumerate(distances[: max(point.num, 0)])
    return [point.start_offset + distance for place, distance in pairs if not point.bit_map >> place & 1]


class JavaRecords:
    """Reads the records. If there are none, it does nothing."""

    def __init__(self, broker: BrokerContext, in_flight: InFlight) -> None:
        self._broker = broker
        self._in_flight = in_flight
        self._ends: dict[tuple[str, int], int] = {}
        """Revive topic and queue → the offset after the last record that was read."""
        self._early: dict[_Early, None] = {}

    def load(self, steady_ms: float) -> None:
        """Read the records that are not handled. Blocks."""
        for topic in self._broker.store.topics():
            if topic.startswith(REVIVE_PREFIX):
                for queue_id in self._broker.store.queue_ids(topic):
                    self._ends[topic, queue_id] = self._first(topic, queue_id)
        before = len(self._in_flight)
        self.read(steady_ms)
        if len(self._in_flight) > before:
            text = "%d messages are in flight that a Java broker lent"
            _log.info(text, len(self._in_flight) - before)

    def arrived(self, stored: QueueRun) -> bool:
        """Return True for records that are to be read."""
        if not stored.topic.startswith(REVIVE_PREFIX):
            return False
        place = stored.topic, stored.queue_id
        if place not in self._ends:
            self._ends[place] = self._first(*place)
        return True

    def read(self, steady_ms: float) -> None:
        """Read new records. Raises NotReady, and then continues where it was."""
        search = self._broker.store.search
        for (topic, queue_id), start in self._ends.items():
            offset, end = start, search.max_offset(topic, queue_id)
            while offset < end:
                entries = search.consume_queue_entries(topic, queue_id, offset, BATCH)
                if not entries:
                    break
                for position, size, _ in entries:
                    self._apply(search.record_at_size(position, size), steady_ms)
                    offset += 1
                    self._ends[topic, queue_id] = offset

    def commit(self, ends: dict[tuple[str, int], int]) -> None:
        """Record in the table of offsets what was read, once the messages in flight are saved."""
        for (topic, queue_id), end in ends.items():
            if end > 0 and end - 1 > self._broker.offsets.query(REVIVE_GROUP, topic, queue_id):
                # Java has the offset of the last record.
                self._broker.offsets.commit(REVIVE_GROUP, topic, queue_id, end - 1)

    @property
    def ends(self) -> dict[tuple[str, int], int]:
        """The offsets that `commit` records, once the records are saved."""
        return dict(self._ends)

    def acked(self, group: str, stored: str, handle: ReceiptHandle) -> bool:
        """Keep an acknowledgement whose check point may still come. Return False if none can."""
        over = handle.pop_time + handle.invisible_time + GRACE_MS
        if not self._ends or over < self._broker.now_ms() or len(self._early) >= MOST_EARLY:
            return False
        self._early[group, stored, handle.queue_id, handle.offset, handle.pop_time] = None
        return True

    def _first(self, topic: str, queue_id: int) -> int:
        done = self._broker.offsets.query(REVIVE_GROUP, topic, queue_id)
        return max(done + 1, self._broker.store.search.min_offset(topic, queue_id))

    def _apply(self, record: memoryview | None, steady_ms: float) -> None:
        if record is None:
            return
        try:
            message = decode_record(record)
            tag = message.properties.get(PropertyName.TAGS)
            if tag == _CHECK_POINT:
                self._add(decode_body(PopCheckPoint, message.body), steady_ms)
            elif tag in (_ACK, _BATCH_ACK):
                self._ack(decode_body(PopAck, message.body))
        except CodecError as error:
            _log.error("a record of what is in flight cannot be read: %s", error)

    def _add(self, point: PopCheckPoint, steady_ms: float) -> None:
        broker, key = self._broker, (point.group, point.topic, point.queue_id)
        queue = self._in_flight.find(*key)
        committed = broker.offsets.query(*key)
        if point.topic not in broker.topics or (queue is None and committed < 0):
            return
        if queue is None:
            queue = PopQueue(key, committed)
            self._in_flight.add_queue(queue)
        offsets = [offset for offset in offsets_of(point) if offset < queue.position]
        for offset in list(offsets):
            if (*key, offset, point.pop_time) in self._early:
                del self._early[(*key, offset, point.pop_time)]
                offsets.remove(offset)
        lasts = max(point.invisible_time, 0) + GRACE_MS
        left = point.pop_time + lasts - broker.now_ms()
        due = steady_ms + min(max(left, GRACE_MS), lasts)
        self._in_flight.insert(queue, offsets, point.pop_time, point.invisible_time, due)

    def _ack(self, ack: PopAck) -> None:
        queue = self._in_flight.find(ack.group, ack.topic, ack.queue_id)
        for offset in ack.ack_offsets or [ack.ack_offset]:
            if queue is not None and self._in_flight.point_of(queue, offset, ack.pop_time) is not None:
                self._in_flight.done(queue, offset)
