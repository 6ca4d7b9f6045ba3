"""Delivery of delayed messages when they are due (Java `ScheduleMessageService`).

One service per level sleeps until the next message of its queue is due, or until the store reports a new one.
The delivered copy keeps all properties, including DELAY, REAL_TOPIC and REAL_QID. A failed delivery is
retried. The offset advances only after a success, so a crash may deliver a message twice but never loses one.
Times are milliseconds of the broker's clock; if the clock was set back, a message that would wait longer than
its level is delivered immediately. A slave delivers nothing.
"""

from __future__ import annotations

import logging
from functools import partial

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.services.put import real_place, restored
from rmqcli.broker.store.values import PutStatus, StoreMessage
from rmqcli.broker.supervisor import Services
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.errors import CodecError
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.records.reading import decode_record

BATCH = 64
"""Messages of one level that are delivered before other tasks run."""
RETRY_SECONDS = 1.0
LONGEST_SLEEP_SECONDS = 5.0
"""Seconds after which the clock is read again, in case it was set."""

SCHEDULE_GROUP = "SCHEDULE_CONSUMER"

_log = logging.getLogger(__name__)


class DelayService:
    """Delivers the messages of one broker."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._arrivals = [trio.Event() for _ in broker.delay_levels.delays_ms]
        self._refused: dict[int, int] = {}

    def arrived(self, stored: QueueRun) -> None:
        """Wake the service for the level of new delayed messages. This is an arrival listener of the
        store."""
        if stored.topic == SystemTopic.SCHEDULE and 0 <= stored.queue_id < len(self._arrivals):
            self._arrivals[stored.queue_id].set()

    def correct_offsets(self) -> None:
        """Move saved offsets into the range of their queues. Call this once before `start`."""
        broker = self._broker
        for level in broker.delay_offsets.levels():
            low = broker.store.search.min_offset(SystemTopic.SCHEDULE, level - 1)
            high = broker.store.search.max_offset(SystemTopic.SCHEDULE, level - 1)
            broker.delay_offsets.set(level, min(max(broker.delay_offsets.get(level), low), high))
        for queue_id in broker.store.queue_ids(SystemTopic.SCHEDULE):
            level, high = queue_id + 1, broker.store.search.max_offset(SystemTopic.SCHEDULE, queue_id)
            waiting = high - broker.delay_offsets.get(level)
            if level > broker.delay_levels.highest and waiting > 0:
                text = "messageDelayLevel has no level %d: %d messages of it are not delivered"
                _log.warning(text, level, waiting)

    def start(self, services: Services) -> None:
        """Start one service for each level."""
        for level in range(1, self._broker.delay_levels.highest + 1):
            services.start(f"delay level {level}", partial(self._run_level, level))

    async def _run_level(self, level: int) -> None:
        while True:
            # Before the queue is read: a message that comes in between sets it.
            self._arrivals[level - 1] = trio.Event()
            wait = await self._broker.store.when_ready(self._deliver_due, level)
            if wait is None:
                await self._arrivals[level - 1].wait()
            else:
                await self._broker.sleep(min(wait, LONGEST_SLEEP_SECONDS))

    def _deliver_due(self, level: int) -> float | None:
        """Deliver a batch of due messages. Return the seconds until the next one is due; None if the queue is
        empty."""
        broker = self._broker
        if broker.is_slave:
            return LONGEST_SLEEP_SECONDS
        offset = max(
            broker.delay_offsets.get(level), broker.store.search.min_offset(SystemTopic.SCHEDULE, level - 1)
        )
        entries = broker.store.search.consume_queue_entries(SystemTopic.SCHEDULE, level - 1, offset, BATCH)
        if not entries:
            return None
        for position, size, deliver_at in entries:
            wait = deliver_at - broker.now_ms()
            if 0 < wait <= broker.delay_levels.delay_ms(level):
                return wait / 1000
            if not self._deliver(position, size, level):
                return RETRY_SECONDS
            offset += 1
            broker.delay_offsets.set(level, offset)
        return 0.0

    def _deliver(self, position: int, size: int, level: int) -> bool:
        """Put one message into its real topic. Return False if the level must retry it."""
        record = self._broker.store.search.record_at_size(position, size)
        if record is None:
            return True
        try:
            original = decode_record(record)
        except CodecError as error:
            _log.error("the delayed message at %d cannot be read: %s", position, error)
            return True
        properties = original.properties
        place = real_place(properties)
        if place is None or place[0] == SystemTopic.TRANS_HALF:
            _log.error("the delayed message at %d names no topic", position)
            return True
        message = restored(original, properties, encode_properties(properties))
        message.topic, message.queue_id = place
        return self._put(message, level, position)

    def _put(self, message: StoreMessage, level: int, position: int) -> bool:
        """Store a message; count it as put into its topic and as read by SCHEDULE_CONSUMER."""
        broker = self._broker
        # Not by `put`, which would park the message again: it keeps its delay level.
        result = broker.store.writer.append(message)
        if result.status is not PutStatus.PUT_OK:
            broker.rates.put_failures += 1
            if self._refused.get(level) != position:
                text = "level %d waits for the message at %d of topic %s, which the store refuses: %s"
                _log.error(text, level, position, message.topic, result.status.name)
            self._refused[level] = position
            return False
        broker.rates.put_messages += 1
        broker.rates.put_bytes += result.size
        if broker.config.enable_schedule_message_stats:
            broker.statistics.put(message.topic, message.queue_id, 1, result.size)
            broker.statistics.got(SystemTopic.SCHEDULE, level - 1, SCHEDULE_GROUP, 1, result.size)
        return True
