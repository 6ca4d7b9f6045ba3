"""Delivery of timer messages when they are due (Java `TimerMessageStore`).

One service reads the queue of the timer topic, puts each message into its slot of the wheel
(`rmqcli.broker.store.timer_wheel`), and delivers the slots whose second has passed: a message is never early,
and less than a second late. Before it delivers, it reads the queue to the end, so that a recall stored in
time takes effect. A message that waits for a long time is stored again in between, because the files of the
commit log are deleted.

A message that the store refuses is tried again; its slot is cleared once all of it is stored. Wheel and log
are saved every second in which they change, after the commit log, so a crash may repeat what that second
delivered but never loses a message. A slave delivers nothing; it learns from its master what was delivered.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.disk import Disk, save_table
from rmqcli.broker.services.put import real_place, restored
from rmqcli.broker.services.timer_properties import DEL_UNIQKEY, OUT_MS, delete_key, number
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.store.timer_wheel import TimerEntry, TimerWheel
from rmqcli.broker.store.values import PutStatus, StoreMessage
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.config import DataVersion
from rmqcli.codec.bodies.stats import TimerMetric, TimerMetricsSerializeWrapper
from rmqcli.codec.core.hashing import java_string_hash
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.errors import CodecError, CorruptionError
from rmqcli.codec.fastjson import FASTJSON
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import RETRY_PREFIX, TIMER_TOPIC, SystemTopic
from rmqcli.codec.properties import decode_properties, encode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.recall_handle import RecallHandle
from rmqcli.codec.records.reading import decode_record, scan_record
from rmqcli.codec.store.timer_files import DELETE, PRECISION_MS, ROLL, TimerCheckPoint, TimerUnit

QUEUE = 0
BATCH = 512
"""Messages that are put into the wheel, or delivered, before other tasks run."""
DELIVERED_AT_ONCE = 32
SAVE_SECONDS = 1.0
RETRY_SECONDS = 1.0
LONGEST_SLEEP_SECONDS = 5.0
"""Seconds after which the clock is read again, in case it was set."""
CLEAN_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 2 * 86400
"""The longest time in one slot (Java `timerRollWindowSlot`)."""
MS_PER_HOUR = 3_600_000

P = PropertyName
_log = logging.getLogger(__name__)


def recall_handle(broker: BrokerContext, message: StoreMessage) -> str | None:
    """Return the text with which the sender of a timer message can recall it (Java `RecallMessageHandle`); None
    if it has no UNIQ_KEY, or is one of a retry topic."""
    properties = message.properties
    topic, key = properties[P.REAL_TOPIC], properties.get(P.UNIQ_KEY)
    if key is None or topic.startswith(RETRY_PREFIX):
        return None
    # Within the second of the slot, so that the recall gets the same one.
    moment = int(properties[OUT_MS]) + 1
    return RecallHandle(topic, broker.name, moment, key).encode()


class Timers:
    """The timer messages of one broker."""

    def __init__(self, broker: BrokerContext, root: Path, in_thread: InThread, disk: Disk) -> None:
        self._broker = broker
        self._in_thread = in_thread
        self._disk = disk
        self._metrics_path = root / "config" / "timermetrics"
        reserved = broker.config.file_reserved_time * MS_PER_HOUR * 2 // 3
        window = max(min(LONGEST_WAIT_SECONDS * 1000, reserved), 60 * PRECISION_MS)
        self._wheel = TimerWheel(disk, root, window, broker.config.mapped_file_size_timer_log)
        self._pause: trio.CancelScope | None = None
        self._has_news = True
        self._delivered: dict[int, int] = {}
        """The position of the last unit that was delivered, of each slot whose delivery was interrupted."""
        self._refused = -1
        self._saved = self._cleaned = -CLEAN_SECONDS
        self._topics: dict[int, str] = {}
        self._changed: dict[int, int] = {}

    # --- called by other parts

    @property
    def counts(self) -> dict[int, int]:
        """The number of messages of each slot in use."""
        return self._wheel.counts

    @property
    def waiting(self) -> int:
        """The number of waiting messages."""
        return max(self._wheel.waiting, 0) + self.behind

    @property
    def behind(self) -> int:
        """The number of stored messages that are not yet in the wheel."""
        end = self._broker.store.search.max_offset(TIMER_TOPIC, QUEUE)
        return max(end - self._wheel.queue_offset, 0)

    def seconds_behind(self) -> int:
        """Return the seconds by which the delivery is late."""
        now = self._broker.now_ms()
        return max(now - PRECISION_MS - self._wheel.read_time(now), 0) // 1000

    def check_point(self) -> TimerCheckPoint:
        """Return the numbers that a slave needs."""
        return self._wheel.check_point(self._broker.now_ms())

    def metrics(self) -> TimerMetricsSerializeWrapper:
        """Return the number of waiting messages, by topic."""
        now = self._broker.now_ms()
        for name in self._broker.topics:
            self._topics.setdefault(java_string_hash(name), name)
        counts = dict(self._wheel.by_topic)
        return TimerMetricsSerializeWrapper(
            timing_count={
                topic: TimerMetric(count=count, time_stamp=self._changed.get(key, now))
                for key, count in counts.items()
                if (topic := self._topics.get(key)) is not None
            },
            data_version=DataVersion(timestamp=now),
        )

    def arrived(self, stored: QueueRun) -> None:
        """Wake the service for new timer messages. This is an arrival listener of the store."""
        if stored.topic == TIMER_TOPIC:
            self._has_news = True
            if self._pause is not None:
                self._pause.cancel()

    async def adopt(self, known: TimerCheckPoint) -> None:
        """Record on a slave what its master has delivered. Raises OSError if the disk refuses."""
        await self._in_thread(self._wheel.adopt, known, self._queue()[0])

    # --- the service

    def load(self) -> None:
        """Read the files, once the store is recovered. Blocks."""
        self._wheel.load(
            stop_was_clean=self._broker.store.stop_was_clean,
            queue=self._queue(),
            queue_offset_of=self._queue_offset_of,
        )

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            self._has_news = False
            wait = await self._step()
            if self._wheel.is_dirty:
                wait = min(wait, SAVE_SECONDS)
            with trio.move_on_after(0 if self._has_news else wait) as self._pause:
                await self._broker.clock_moved.park()
            self._pause = None

    async def close(self) -> None:
        """Save everything and close the files."""
        try:
            changed = self._wheel.is_dirty or self._wheel.is_open
            if changed and not self._broker.is_slave and not self._wheel.is_behind:
                with suppress(OSError):
                    await self._save(is_closed=True)
                    await self._in_thread(self._save_metrics)
        finally:
            await self._in_thread(self._wheel.close)

    def _queue(self) -> tuple[int, int]:
        search = self._broker.store.search
        return search.min_offset(TIMER_TOPIC, QUEUE), search.max_offset(TIMER_TOPIC, QUEUE)

    async def _step(self) -> float:
        """Read the queue, deliver what is due, and save. Return the seconds until the next step."""
        if self._broker.is_slave:
            return LONGEST_SLEEP_SECONDS
        if self._wheel.is_old(self._broker.now_ms()):
            wait = await self._deliver_due()
            if self._wheel.is_old(self._broker.now_ms()):
                return wait
        while await self._read():
            pass
        wait = await self._deliver_due()
        now = trio.current_time()
        if self._wheel.is_dirty and not self._wheel.is_behind and now - self._saved >= SAVE_SECONDS:
            await self._save()
        if now - self._cleaned >= CLEAN_SECONDS:
            self._cleaned = now
            await self._in_thread(self._wheel.delete_before, self._broker.store.commit_log_min_offset)
        return wait

    async def _save(self, *, is_closed: bool = False) -> None:
        # The units of the wheel's log refer to records, which have to be on the disk before them.
        if not await self._broker.store.make_durable():
            return
        self._saved = trio.current_time()
        now = self._broker.now_ms()
        await self._in_thread(lambda: self._wheel.save(now, is_closed=is_closed))

    async def _begin_changes(self) -> None:
        """Save, before the first change, that the check point of the last stop no longer describes the wheel."""
        if not self._wheel.is_open and not self._wheel.is_behind:
            await self._save()

    def _save_metrics(self) -> None:
        save_table(self._disk, self._metrics_path, encode_body(self.metrics(), dialect=FASTJSON))

    # --- from the queue into the wheel

    async def _read(self) -> bool:
        """Put a batch of new messages into the wheel. Return False if there are none."""
        wheel = self._wheel
        wheel.queue_offset = max(wheel.queue_offset, self._queue()[0])
        entries = await self._broker.store.when_ready(self._entries)
        if not entries:
            return False
        await self._begin_changes()
        await self._in_thread(wheel.add, entries, self._broker.now_ms())
        return True

    def _entries(self) -> list[TimerEntry | None]:
        search, offset = self._broker.store.search, self._wheel.queue_offset
        found = search.consume_queue_entries(TIMER_TOPIC, QUEUE, offset, BATCH)
        return [
            self._entry(position, size, offset + index) for index, (position, size, _) in enumerate(found)
        ]

    def _entry(self, position: int, size: int, queue_offset: int) -> TimerEntry | None:
        """Return the entry of a message; None if it does not wait."""
        record = self._broker.store.search.record_at_size(position, size)
        if record is None:
            return None
        try:
            scan = scan_record(record)
        except CorruptionError as error:
            _log.error("the timer message at %d cannot be read: %s", position, error)
            return None
        properties = decode_properties(scan.properties)
        out, topic = number(properties.get(OUT_MS, "")), properties.get(P.REAL_TOPIC)
        if out is None or topic is None:
            _log.error("the timer message at %d has no time, or names no topic", position)
            return None
        key = java_string_hash(topic)
        entry = TimerEntry(out, position, size, key, DEL_UNIQKEY in properties)
        if self._wheel.is_delivered(queue_offset, entry, scan.store_timestamp):
            return None
        self._topics[key] = topic
        self._changed[key] = self._broker.now_ms()
        return entry

    def _queue_offset_of(self, position: int, size: int) -> int | None:
        with suppress(CorruptionError):
            record = self._broker.store.search.record_at_size(position, size)
            scan = None if record is None else scan_record(record)
            if scan is not None and scan.topic == TIMER_TOPIC.encode():
                return scan.queue_offset
        return None

    # --- from the wheel into the topics

    async def _deliver_due(self) -> float:
        """Deliver the slots that are due. Return the seconds until the next slot is due."""
        while (slot := self._wheel.next_slot()) is not None:
            wait = slot + PRECISION_MS - self._broker.now_ms()
            if wait > 0:
                return min(wait / 1000, LONGEST_SLEEP_SECONDS)
            await self._begin_changes()
            if not await self._deliver_slot(slot):
                return RETRY_SECONDS
            await self._in_thread(self._wheel.clear, slot)
            self._delivered.pop(slot, None)
            # New messages are read first, because one of them may recall a message of the next slot.
            if self._has_news:
                return 0.0
        return LONGEST_SLEEP_SECONDS

    async def _deliver_slot(self, slot: int) -> bool:
        """Deliver the messages of a slot. Return False if the store refuses one."""
        store, wheel = self._broker.store, self._wheel
        positions, deletes = await self._in_thread(wheel.chain, slot)
        recalled = {key for unit in deletes if (key := await store.when_ready(self._recalled, unit))}
        done = self._delivered.get(slot, -1)
        positions = positions[bisect_right(positions, done) :]
        for start in range(0, len(positions), BATCH):
            units: list[TimerUnit] = await self._in_thread(wheel.units, positions[start : start + BATCH])
            for number_, unit in enumerate(units):
                if not await store.when_ready(self._deliver, unit, recalled):
                    return False
                self._delivered[slot] = unit.position
                wheel.done(unit)
                if number_ % DELIVERED_AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
        return True

    def _original(self, unit: TimerUnit) -> MessageExt | None:
        """Return the message of a unit; None if it is gone or another one."""
        record = self._broker.store.search.record_at_size(unit.offset, unit.size)
        try:
            original = None if record is None else decode_record(record)
        except CodecError as error:
            _log.error("the timer message at %d cannot be read: %s", unit.offset, error)
            return None
        if original is None or original.topic != TIMER_TOPIC:
            _log.error("the timer message at %d is gone: its file was deleted", unit.offset)
            return None
        out = number(original.properties.get(OUT_MS, ""))
        # A unit whose record was lost in a power cut may now point to another message.
        is_its = out is not None and (out <= unit.slot or unit.magic & ROLL)
        return original if is_its else None

    def _recalled(self, unit: TimerUnit) -> str | None:
        original = self._original(unit)
        return None if original is None else original.properties.get(DEL_UNIQKEY)

    def _deliver(self, unit: TimerUnit, recalled: set[str]) -> bool:
        """Store one message in its real topic, or again in the timer topic. Return False if it must be tried
        again."""
        is_rolled = bool(unit.magic & ROLL)
        if unit.magic & DELETE and not is_rolled:
            return True
        original = self._original(unit)
        if original is None:
            return True
        properties = original.properties
        place = real_place(properties)
        if place is None or place[0] == SystemTopic.TRANS_HALF:
            _log.error("the timer message at %d names no topic", unit.offset)
            return True
        key = properties.get(P.UNIQ_KEY)
        if not is_rolled and key is not None and delete_key(place[0], key) in recalled:
            return True
        properties[P.TIMER_ENQUEUE_MS] = str(unit.write_time)
        properties[P.TIMER_DEQUEUE_MS] = str(self._broker.now_ms())
        if is_rolled:
            rolls = number(properties.get(P.TIMER_ROLL_TIMES, "")) or 0
            properties[P.TIMER_ROLL_TIMES] = str(rolls + 1)
        message = restored(original, properties, encode_properties(properties))
        if not is_rolled:
            message.topic, message.queue_id = place
        return self._put(message, unit)

    def _put(self, message: StoreMessage, unit: TimerUnit) -> bool:
        broker = self._broker
        result = broker.store.writer.append(message)
        if result.status is not PutStatus.PUT_OK:
            broker.rates.put_failures += 1
            if self._refused != unit.offset:
                text = "the timer message at %d of topic %s waits, because the store refuses it: %s"
                _log.error(text, unit.offset, message.topic, result.status.name)
            self._refused = unit.offset
            return False
        broker.rates.put_messages += 1
        broker.rates.put_bytes += result.size
        self._changed[unit.topic_hash] = broker.now_ms()
        if broker.config.enable_schedule_message_stats:
            broker.statistics.put(message.topic, message.queue_id, 1, result.size)
        return True
