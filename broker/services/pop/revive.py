"""Handling of popped messages whose time is over: a copy in the retry topic of group and topic, with one more
attempt, or a dead letter if the attempts of the group are used up (Java class `PopReviveService`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.services.pop.in_flight import MOST, CheckPoint, InFlight, PopQueue
from rmqcli.broker.services.pop.orders import Orders
from rmqcli.broker.services.pop.waiting import Waiting
from rmqcli.broker.services.put import restored
from rmqcli.broker.services.retries import DLQ_QUEUES, put_dead_letter
from rmqcli.broker.store.values import PutStatus
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.errors import CodecError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import dlq_topic
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.receipt_handle import NORMAL, RETRY_V1, RETRY_V2, pop_retry_topic, retry_flag
from rmqcli.codec.records.reading import decode_record

RETRY_QUEUES = 1
REVIVED_AT_ONCE = 32
"""Messages that are stored again before other tasks run."""
RETRY_MS = 1000
LONGEST_SLEEP_SECONDS = 60.0
AGAIN_SECONDS = 60.0
"""Minimum time between two log lines about the same problem."""

_log = logging.getLogger(__name__)


def real_topic(group: str, stored: str) -> str:
    """Return the topic that a group requested, given the topic in which a message is stored."""
    for flag in (RETRY_V1, RETRY_V2):
        prefix = pop_retry_topic(group, "", flag)
        if stored.startswith(prefix):
            return stored.removeprefix(prefix)
    return stored


def needed_topic(
    broker: BrokerContext, queue: PopQueue, message: MessageExt, *, attempts: int
) -> tuple[str, int]:
    """Return the topic that a message goes to next, and the number of its queues."""
    group = broker.groups.get(queue.group)
    most = (group or SubscriptionGroupConfig(queue.group)).retry_max_times
    if message.reconsume_times + attempts > most:
        return dlq_topic(queue.group), DLQ_QUEUES
    return pop_retry_topic(queue.group, real_topic(queue.group, queue.topic)), RETRY_QUEUES


def lent(broker: BrokerContext, queue: PopQueue, offset: int) -> MessageExt | None:
    """Return a message by its queue offset; None if it is gone. Raises NotReady."""
    if offset < broker.store.search.min_offset(queue.topic, queue.queue_id):
        return None
    found = broker.store.search.stored_entries(queue.topic, queue.queue_id, offset, 1)
    if not found:
        return None
    record = broker.store.search.record_at_size(*found[0][:2])
    try:
        return None if record is None else decode_record(record)
    except CodecError as error:
        _log.error(
            "%s queue %d: the message %d cannot be read: %s", queue.topic, queue.queue_id, offset, error
        )
        return None


def store_again(
    broker: BrokerContext, queue: PopQueue, message: MessageExt, topic: str, pop_time: int, *, attempts: int
) -> bool:
    """Store a message in `topic`, which exists. Return False if the store refuses it. Raises NotReady."""
    if topic == dlq_topic(queue.group):
        try:
            put_dead_letter(broker, message, queue.group, real_topic(queue.group, queue.topic))
        except Refusal:
            return False
        return True
    properties = message.properties
    if message.reconsume_times == 0 or PropertyName.FIRST_POP_TIME not in properties:
        properties[PropertyName.FIRST_POP_TIME] = str(pop_time)
    copy = restored(message, properties, encode_properties(properties))
    copy.topic, copy.queue_id = topic, 0
    copy.reconsume_times += attempts
    # Not with `put`, which would delay a delayed message again.
    result = broker.store.writer.append(copy)
    if result.status is PutStatus.PROPERTIES_SIZE_EXCEEDED:
        # The message fits without what the broker has added to it.
        del properties[PropertyName.FIRST_POP_TIME]
        copy.properties_text = encode_properties(properties)
        result = broker.store.writer.append(copy)
    if result.status is not PutStatus.PUT_OK:
        broker.rates.put_failures += 1
        return False
    broker.rates.put_messages += 1
    broker.rates.put_bytes += result.size
    broker.statistics.put(topic, 0, 1, result.size)
    if retry_flag(queue.topic) == NORMAL:
        broker.statistics.sent_back(queue.topic, queue.group)
    return True


class Revival:
    """The end of the time of popped messages: each is stored again or acknowledged, and then removed."""

    def __init__(
        self,
        broker: BrokerContext,
        in_flight: InFlight,
        orders: Orders,
        waiting: Waiting,
        read_records: Callable[[int], object],
    ) -> None:
        self._broker = broker
        self._in_flight = in_flight
        self._orders = orders
        self._waiting = waiting
        self._read_records = read_records
        self._ahead_ms = 0
        self._pause: trio.CancelScope | None = None
        self._has_news = False
        self._sleeps_until = 0.0
        self._told_refused = -AGAIN_SECONDS

    def steady_ms(self) -> int:
        """Return the time in which due times are kept."""
        return round(trio.current_time() * 1000) + self._ahead_ms

    def hurry(self, milliseconds: int) -> None:
        """Let the times of all messages end this much earlier, for tests."""
        self._ahead_ms += milliseconds
        self.wake()

    def done(self, queue: PopQueue, offset: int) -> None:
        was_full = queue.room <= 0 or len(self._in_flight) >= MOST
        self._in_flight.done(queue, offset)
        if was_full:
            self._waiting.wake_group(real_topic(queue.group, queue.topic), queue.group)

    async def take_back(self, queue: PopQueue, offset: int, point: CheckPoint, *, attempts: int) -> bool:
        """Store a message again that is still in flight in its check point, and remove it. Return False if
        the store refuses it. Raises OSError.
        """
        while True:
            needed = await self._broker.store.when_ready(self._try_again, queue, offset, point, attempts)
            if isinstance(needed, bool):
                return needed
            await self.ensure(*needed)

    def _try_again(
        self, queue: PopQueue, offset: int, point: CheckPoint, attempts: int
    ) -> bool | tuple[str, int]:
        """Return a topic, and its number of queues, if it must be created first."""
        broker = self._broker
        if queue.in_flight.get(offset) is not point:
            return True
        # A group that the table lacks is no reason to lose a message: it may have begun just before a crash.
        is_wanted = real_topic(queue.group, queue.topic) in broker.topics
        message = lent(broker, queue, offset) if is_wanted else None
        if message is None:
            text = "%s does not get the message %d of queue %d of %s again: it is gone"
            _log.info(text, queue.group, offset, queue.queue_id, queue.topic)
        else:
            topic, queues = needed_topic(broker, queue, message, attempts=attempts)
            if topic not in broker.topics:
                return topic, queues
            if topic != dlq_topic(queue.group) and broker.offsets.query(queue.group, topic, 0) < 0:
                # Without an offset, the group would have no lag here while none of its members pops.
                broker.offsets.commit(queue.group, topic, 0, max(0, broker.store.search.min_offset(topic, 0)))
            if not store_again(broker, queue, message, topic, point.pop_time, attempts=attempts):
                return False
        self.done(queue, offset)
        return True

    async def ensure(self, topic: str, queues: int) -> None:
        """Create a topic, unless it exists, and save that before a message is stored in it. Raises OSError."""
        config, made = self._broker.topics.ensure(topic, queues)
        if made:
            self._broker.files.topics_changed()
            self._broker.announcer.announce([config])
        await self._broker.files.save_changed()

    async def _take_back_due(self) -> None:
        """Store the messages again whose time is over, and wake the pops of FIFO queues that are free."""
        for group, topic, _ in list(self._orders.freed(self.steady_ms())):
            self._waiting.wake_group(real_topic(group, topic), group)
        done = 0
        while (due := self._in_flight.take_due(self.steady_ms())) is not None:
            queue, point = due
            try:
                for offset in point.offsets:
                    if queue.in_flight.get(offset) is not point:
                        continue
                    if not await self.take_back(queue, offset, point, attempts=1):
                        self._tell_refused(queue, offset)
                        break
                    done += 1
                    if done % REVIVED_AT_ONCE == 0:
                        await trio.lowlevel.checkpoint()
            finally:
                if point.left:
                    self._in_flight.put_back(queue, point, self.steady_ms() + RETRY_MS)

    def _tell_refused(self, queue: PopQueue, offset: int) -> None:
        now = trio.current_time()
        if now - self._told_refused >= AGAIN_SECONDS:
            self._told_refused = now
            text = "%s gets the message %d of queue %d of %s again later: the store refuses it now"
            _log.error(text, queue.group, offset, queue.queue_id, queue.topic)

    def wake_before(self, due: float) -> None:
        if due < self._sleeps_until:
            self.wake()

    def wake(self) -> None:
        self._has_news = True
        if self._pause is not None:
            self._pause.cancel()

    async def run(self) -> None:
        """Run the service that takes back messages whose time is over."""
        while True:
            self._has_news = False
            wait = LONGEST_SLEEP_SECONDS
            if not self._broker.is_slave:
                await self._broker.store.when_ready(self._read_records, self.steady_ms())
                await self._take_back_due()
                dues = [
                    due for due in (self._in_flight.next_due(), self._orders.next_due()) if due is not None
                ]
                wait = min([wait, *(max(due - self.steady_ms(), 0) / 1000 for due in dues)])
            self._sleeps_until = self.steady_ms() + wait * 1000
            with trio.move_on_after(0 if self._has_news else wait) as self._pause:
                await trio.sleep_forever()
            self._pause = None
            # Nothing has to wake a service that is awake: it asks for the next due time before it sleeps.
            self._sleeps_until = 0.0
