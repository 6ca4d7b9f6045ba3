"""The functions of pop consumption, for both protocols (Java classes `PopMessageProcessor`,
`AckMessageProcessor`, `ChangeInvisibleTimeProcessor`, `PopReviveService`).

The position of a group in a queue is the offset of its next pop. The table of offsets has the acknowledged
prefix: the first offset in flight, otherwise the position. So messages whose state is lost in a crash were
lent before, and are lent again; see `saved`. A pop reads all queues before it changes anything, because a
read may have to wait for the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.disk import Disk
from rmqcli.broker.services.pop.in_flight import MOST, InFlight, PopQueue, QueueKey
from rmqcli.broker.services.pop.orders import Orders
from rmqcli.broker.services.pop.revive import AGAIN_SECONDS, Revival, lent, real_topic
from rmqcli.broker.services.pop.saved import SavedPops
from rmqcli.broker.services.pop.values import PoppedPart, PopRequest, PopResult, records_of
from rmqcli.broker.services.pop.waiting import ALL_QUEUES, Waiting
from rmqcli.broker.services.retries import DLQ_QUEUES, put_dead_letter
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.store.values import GetResult, GetStatus
from rmqcli.broker.tables.attributes import PRIORITY_FACTOR, message_type
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.names import dlq_topic
from rmqcli.codec.receipt_handle import (
    NORMAL,
    ORDER_QUEUE,
    RETRY_V1,
    RETRY_V2,
    REVIVE_QUEUES,
    ReceiptHandle,
    pop_retry_topic,
)

RETRY_FIRST = 5
"""One in this many pops reads the retry topics first (Java `popFromRetryProbability`, 20 %)."""
PRIORITY = "PRIORITY"

_log = logging.getLogger(__name__)
_WRONG = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)


class _Source(NamedTuple):
    """A queue that a pop reads."""

    topic: str
    retry: str
    queue_id: int


class _Read(NamedTuple):
    """The result of reading a queue from `start` on."""

    source: _Source
    queue: PopQueue
    start: int
    result: GetResult


def _part(source: _Source, start: int, found: GetResult) -> PoppedPart:
    """Return the messages that were read from `start` on; a filter may have left some out."""
    offsets: Sequence[int] = range(start, found.next_begin_offset)
    if found.count != len(offsets):
        offsets = [offset for offset, _ in records_of(found.views)]
    return PoppedPart(source.topic, source.retry, source.queue_id, offsets, found.views)


class Pops:
    """The pops of one broker."""

    def __init__(self, broker: BrokerContext, root: Path, in_thread: InThread, disk: Disk) -> None:
        self._broker = broker
        self.in_flight = InFlight()
        self.orders = Orders()
        self.waiting = Waiting()
        self._saved = SavedPops(broker, self.in_flight, self.orders, root, in_thread, disk)
        self.revival = Revival(broker, self.in_flight, self.orders, self.waiting, self._saved.java.read)
        self._revive_queue = -1
        self.must_save = False
        """True if a group has begun at an offset where it would not begin again."""
        self._told_full = -AGAIN_SECONDS

    # --- called by requests

    def pop(self, request: PopRequest) -> PopResult:
        """Lend messages; none if there are none. Raises NotReady before it changes anything."""
        if request.order:
            return self._pop_in_order(request)
        reads, rest = self._read(request)
        self._revive_queue = (self._revive_queue + 1) % REVIVE_QUEUES
        result = PopResult(self._broker.now_ms(), request.invisible_ms, self._revive_queue)
        result.rest = rest
        due = self.revival.steady_ms() + request.invisible_ms if reads else 0
        for source, queue, start, found in reads:
            queue.position = found.next_begin_offset
            result.moved |= queue.position != start
            self.in_flight.changed[queue] = None
            if found.count:
                part = _part(source, start, found)
                self.in_flight.add(queue, part.offsets, result.pop_time, request.invisible_ms, due)
                self._lent(result, part, found, request.group)
        if result.parts:
            self.revival.wake_before(due)
        return result

    def pop_now(self, request: PopRequest) -> PopResult:
        """Lend messages, and wake the next pop that waits if some are left. Raises NotReady, as `pop` does.

        If `must_save` is then True, await `save_first` before they are sent.
        """
        found = self.pop(request)
        if found.count and found.rest:
            self.waiting.wake_next(request.topic, request.group, request.queue_id)
        return found

    async def save_first(self) -> None:
        """Save the offsets at which groups began. Raises OSError."""
        if self.must_save:
            # Cleared before the save: a group that begins during it needs another one.
            self.must_save = False
            try:
                await self._broker.files.save_offsets()
            except BaseException:
                self.must_save = True
                raise

    async def receive(
        self, request: PopRequest, until: float, session: Hashable = None, found: PopResult | None = None
    ) -> PopResult | None:
        """Lend messages, or wait for some until a time of trio's clock; the result is empty if none arrived. Return
        None if too many pops wait.

        A pop that is cancelled while it waits has lent nothing. `found` is the result of a pop just before.
        """
        when_ready, waiting = self._broker.store.when_ready, self.waiting
        last = await when_ready(self.pop_now, request) if found is None else found
        await self.save_first()
        if last.count or until <= trio.current_time():
            return last
        if not waiting.has_room(request.group, request.topic, request.queue_id, session):
            return None
        codes = request.wanted.codes
        with waiting.waiter(request.group, request.topic, request.queue_id, codes, session) as waiter:
            while not last.count and not waiter.is_released:
                if last.moved and last.rest:
                    # A filter has passed over messages and others follow, which no arrival will announce.
                    await trio.lowlevel.checkpoint()
                else:
                    with trio.move_on_at(until):
                        await waiter.wait()
                is_over = until <= trio.current_time()
                if not waiter.is_released:
                    last = await when_ready(self.pop_now, request)
                if is_over:
                    break
        await self.save_first()
        return last

    def ack(self, group: str, topic: str, handle: ReceiptHandle) -> bool:
        """Acknowledge a message. Return False if it is not in flight under this handle: the acknowledgement
        is late or repeated.
        """
        stored = handle.topic(group, topic)
        if handle.is_order:
            return self._ack_in_order(group, stored, handle)
        queue = self._known(group, stored, handle.queue_id)
        if self.in_flight.point_of(queue, handle.offset, handle.pop_time) is None:
            return self._saved.java.acked(group, stored, handle)
        assert queue is not None
        self.revival.done(queue, handle.offset)
        return True

    def ack_all(self, group: str, topic: str, handles: Iterable[ReceiptHandle]) -> list[bool]:
        """Acknowledge messages, as `ack` does."""
        return [self.ack(group, topic, handle) for handle in handles]

    def change(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int
    ) -> ReceiptHandle | None:
        """Change the time for which a message is lent, counted from now. Return its new handle; None if it is
        not in flight under this one.
        """
        stored, due = handle.topic(group, topic), self.revival.steady_ms() + invisible_ms
        if handle.is_order:
            key = group, stored, handle.queue_id
            if not self.orders.change(key, handle.offset, handle.pop_time, due):
                return None
            self.revival.wake_before(due)
            past = self._broker.now_ms() - handle.pop_time
            return handle._replace(invisible_time=past + invisible_ms)
        queue = self._known(group, stored, handle.queue_id)
        if queue is None or self.in_flight.point_of(queue, handle.offset, handle.pop_time) is None:
            return None
        # A different time from that of the old handle, which no longer has any effect.
        pop_time = max(self._broker.now_ms(), handle.pop_time + 1)
        self.in_flight.change(queue, handle.offset, pop_time, invisible_ms, due)
        self.revival.wake_before(due)
        return handle._replace(pop_time=pop_time, invisible_time=invisible_ms)

    async def release(self, group: str, topic: str, handle: ReceiptHandle, *, counts: bool = False) -> bool:
        """Let a message be popped again now; with `counts`, as another attempt. Return False if it is not in
        flight under this handle.
        """
        stored = handle.topic(group, topic)
        if handle.is_order:
            key = group, stored, handle.queue_id
            now = self.revival.steady_ms()
            if not self.orders.change(key, handle.offset, handle.pop_time, now, delivered=counts):
                return False
            self.waiting.wake_group(topic, group)
            return True
        queue = self._known(group, stored, handle.queue_id)
        point = self.in_flight.point_of(queue, handle.offset, handle.pop_time)
        if queue is None or point is None:
            return False
        return await self.revival.take_back(queue, handle.offset, point, attempts=int(counts))

    async def to_dead_letters(self, group: str, topic: str, handle: ReceiptHandle) -> bool:
        """Store a message in the dead-letter topic of the group, and acknowledge it. Return False if it is not in
        flight under this handle, or gone. Raises Refusal if the store refuses it."""
        await self.revival.ensure(dlq_topic(group), DLQ_QUEUES)
        moved: bool = await self._broker.store.when_ready(self._to_dead_letters, group, topic, handle)
        return moved

    def _to_dead_letters(self, group: str, topic: str, handle: ReceiptHandle) -> bool:
        stored = handle.topic(group, topic)
        key = group, stored, handle.queue_id
        if handle.is_order:
            block = self.orders.get(key)
            is_lent = block is not None and block.is_lent(handle.offset, handle.pop_time)
        else:
            queue = self._known(*key)
            is_lent = self.in_flight.point_of(queue, handle.offset, handle.pop_time) is not None
        message = lent(self._broker, PopQueue(key, 0), handle.offset) if is_lent else None
        if message is not None:
            put_dead_letter(self._broker, message, group, topic)
        return self.ack(group, topic, handle) and message is not None

    def peek(self, request: PopRequest) -> PopResult:
        """Return the messages of the next pop without lending them. Raises NotReady."""
        result = PopResult(self._broker.now_ms(), 0, 0)
        reads, result.rest = self._read(request)
        for source, _, start, found in reads:
            if found.count:
                part = _part(source, start, found)
                self._lent(result, part, found, request.group)
        return result

    def has_messages(self, request: PopRequest) -> bool:
        """Return True if a pop would read a queue with messages after its position."""
        search = self._broker.store.search
        for source in self._sources(request):
            key = request.group, source.topic, source.queue_id
            if request.order:
                block = self.orders.get(key)
                if block is not None and block.is_blocked(request.attempt_id, self.revival.steady_ms()):
                    continue
            start = self._queue(source, request).position
            if search.max_offset(source.topic, source.queue_id) > start:
                return True
        return False

    async def notified(self, request: PopRequest, until: float, session: Hashable = None) -> bool | None:
        """Return True once there are messages, False if there are none until a time of trio's clock, and None if
        too many pops wait."""
        when_ready, waiting = self._broker.store.when_ready, self.waiting
        if await when_ready(self.has_messages, request):
            return True
        if until <= trio.current_time():
            return False
        if not waiting.has_room(request.group, request.topic, request.queue_id, session):
            return None
        with waiting.waiter(request.group, request.topic, request.queue_id, None, session) as waiter:
            while until > trio.current_time():
                with trio.move_on_at(until):
                    await waiter.wait()
                if await when_ready(self.has_messages, request):
                    # It takes nothing: a waiting pop may.
                    waiting.wake_next(request.topic, request.group, request.queue_id)
                    return True
        return False

    # --- called by other parts

    def position(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset of the next pop, otherwise the committed offset; -1 if there is none."""
        queue = self._known(group, topic, queue_id)
        return self._broker.offsets.query(group, topic, queue_id) if queue is None else queue.position

    def move(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let a group continue at another offset in a queue that it pops; its clients have no offsets."""
        if self.in_flight.find(group, topic, queue_id) is not None:
            self.orders.remove((group, topic, queue_id))
            self._broker.offsets.commit(group, topic, queue_id, offset)
            self.waiting.wake_group(topic, group)

    def lent(self, group: str, topic: str, queue_id: int) -> tuple[int, int]:
        """Return how many messages before the next pop are in flight, and the offset after all that were lent."""
        position = self.position(group, topic, queue_id)
        queue, block = self._known(group, topic, queue_id), self.orders.get((group, topic, queue_id))
        end = position if block is None else max(position, block.offsets[-1] + 1)
        return 0 if queue is None else len(queue.in_flight), end

    def remove_topic(self, topic: str) -> None:
        """Forget a topic that is deleted: a new one with its name has other messages."""
        self._remove(lambda key: key[1] == topic or real_topic(key[0], key[1]) == topic)
        self.waiting.release_topic(topic)

    def remove_group(self, group: str) -> None:
        """Forget a group whose offsets are deleted."""
        self._remove(lambda key: key[0] == group)

    def _remove(self, is_gone: Callable[[QueueKey], bool]) -> None:
        for queue in [queue for queue in self.in_flight if is_gone(queue.key)]:
            self.in_flight.remove(queue)
        for key in [key for key, _ in self.orders.items() if is_gone(key)]:
            self.orders.remove(key)

    def arrived(self, stored: QueueRun) -> None:
        """Wake waiting pops. This is an arrival listener of the store."""
        self.waiting.arrived(stored)
        if self._saved.java.arrived(stored):
            self.revival.wake()

    # --- files

    def load(self, steady_ms: int) -> None:
        """Read the files, once tables and store are loaded. `steady_ms` is the time now. Blocks."""
        self._saved.load(steady_ms)

    def settle(self) -> None:
        """Write the acknowledged prefixes into the table of offsets."""
        self._saved.settle()

    async def save(self) -> None:
        """Save what changed. Raises OSError."""
        await self._saved.save(self.revival.steady_ms())

    async def run_saves(self, period_ms: int) -> None:
        """Run the service that saves."""
        await self._saved.run(period_ms, self.save)

    # --- reading

    def _sources(self, request: PopRequest) -> list[_Source]:
        """Return the queues that a pop reads, in order."""
        group, topic, rng = request.group, request.topic, self._broker.rng
        sources = self._queues_of(topic, NORMAL, request.queue_id)
        if request.order:
            return sources
        # randrange takes several times as long.
        is_retry_first = rng.random() * RETRY_FIRST < 1
        if self._is_by_priority(request):
            sources.sort(reverse=True)  # they differ in their numbers only
            is_retry_first = False
        again = self._queues_of(pop_retry_topic(group, topic, RETRY_V1), RETRY_V1, ALL_QUEUES)
        again += self._queues_of(pop_retry_topic(group, topic, RETRY_V2), RETRY_V2, ALL_QUEUES)
        return again + sources if is_retry_first else sources + again

    def _is_by_priority(self, request: PopRequest) -> bool:
        """Return True if a pop reads the queues by priority, which is their number: every pop of a topic for
        priorities, or the percentage of them that the group sets (5.4).
        """
        if message_type(self._broker.topics.get(request.topic)) != PRIORITY:
            return False
        group = self._broker.groups.get(request.group)
        factor = ((group and group.attributes) or {}).get(PRIORITY_FACTOR, "")
        return not factor.isdecimal() or self._broker.rng.random() * 100 < float(factor[:9])

    def _queues_of(self, topic: str, retry: str, queue_id: int) -> list[_Source]:
        if queue_id >= 0:
            return [_Source(topic, retry, queue_id)]
        config = self._broker.topics.get(topic)
        count = 0 if config is None else config.read_queue_nums
        first = self._broker.rng.randrange(count) if count > 0 else 0
        return [_Source(topic, retry, (first + number) % count) for number in range(count)]

    def _read(self, request: PopRequest) -> tuple[list[_Read], int]:
        """Return the messages that a pop finds, and the number of messages that it leaves."""
        max_offset, in_flight = self._broker.store.search.max_offset, self.in_flight
        reads: list[_Read] = []
        left, rest = request.max_messages, 0
        for source in self._sources(request):
            high = max_offset(source.topic, source.queue_id)
            if not left:
                known = in_flight.find(request.group, source.topic, source.queue_id)
                rest += high if known is None else max(high - known.position, 0)
                continue
            queue = self._queue(source, request)
            start = queue.position
            if start == high:
                continue
            room = min(left, queue.room, MOST - len(in_flight) - (request.max_messages - left))
            if room <= 0:
                rest += max(high - start, 0)
                self._tell_full(queue)
                continue
            found = self._get(source, start, room, request)
            if found.status in _WRONG:
                _log.warning(
                    "%s pops queue %d of %s from offset %d on instead of %d",
                    *(queue.group, queue.queue_id, queue.topic, found.next_begin_offset, start),
                )
                start = found.next_begin_offset
                found = self._get(source, start, room, request)
            elif found.status is GetStatus.NO_MATCHED_LOGIC_QUEUE:
                continue
            reads.append(_Read(source, queue, start, found))
            left -= found.count
            rest += max(found.max_offset - found.next_begin_offset, 0)
        return reads, rest

    def _get(self, source: _Source, start: int, room: int, request: PopRequest) -> GetResult:
        codes, sql = request.wanted
        return self._broker.store.reader.get(
            source.topic,
            source.queue_id,
            start,
            room,
            accepts_code=None if codes is None else codes.__contains__,
            accepts_record=None if sql is None else sql.accepts_record,
            accepts_extension=None if sql is None else sql.accepts_extension,
        )

    def _known(self, group: str, topic: str, queue_id: int) -> PopQueue | None:
        """Return a queue that was popped, at the position to which the group may have been moved in the
        meantime.
        """
        queue = self.in_flight.find(group, topic, queue_id)
        told = -1 if queue is None else self._broker.offsets.query(group, topic, queue_id)
        return queue if queue is not None and self.in_flight.follow(queue, told) else None

    def _queue(self, source: _Source, request: PopRequest) -> PopQueue:
        """Return a queue as the group pops it, from its first pop on."""
        group, (topic, retry, queue_id) = request.group, source
        queue = self._known(group, topic, queue_id)
        if queue is not None:
            return queue
        offset = self._broker.offsets.query(group, topic, queue_id)
        if offset < 0:
            offset = self._first_offset(topic, queue_id, is_first=request.from_start or retry != NORMAL)
            self._broker.offsets.commit(group, topic, queue_id, offset)
        queue = PopQueue((group, topic, queue_id), offset)
        self.in_flight.add_queue(queue)
        return queue

    def _first_offset(self, topic: str, queue_id: int, *, is_first: bool) -> int:
        store = self._broker.store
        low = store.search.min_offset(topic, queue_id)
        if is_first:
            return low
        entries = store.search.consume_queue_entries(topic, queue_id, 0, 1) if low == 0 else []
        if low == 0 and (not entries or not store.reader.is_in_disk(entries[0][0])):
            return 0
        # A group that would begin elsewhere after a crash would not get the messages lent to it before.
        self.must_save = True
        return max(store.search.max_offset(topic, queue_id) - 1, low)

    def _lent(self, result: PopResult, part: PoppedPart, found: GetResult, group: str) -> None:
        result.parts.append(part)
        result.count += len(part.offsets)
        result.size += found.size
        result.end = max(result.end, found.end)
        rates = self._broker.rates
        rates.found += 1
        rates.transferred += found.count
        self._broker.statistics.got(part.topic, part.queue_id, group, found.count, found.size)

    def _tell_full(self, queue: PopQueue) -> None:
        now = trio.current_time()
        if now - self._told_full >= AGAIN_SECONDS:
            self._told_full = now
            text = "%s has %d messages of queue %d of %s in flight, the broker %d: it gets no more until some of them "
            text += "are acknowledged or over"
            _log.warning(
                text, queue.group, len(queue.in_flight), queue.queue_id, queue.topic, len(self.in_flight)
            )

    # --- FIFO

    def _pop_in_order(self, request: PopRequest) -> PopResult:
        broker, now = self._broker, self.revival.steady_ms()
        result = PopResult(broker.now_ms(), request.invisible_ms, ORDER_QUEUE)
        reads: list[tuple[_Source, QueueKey, int, GetResult]] = []
        left = request.max_messages
        for source in self._sources(request):
            key = request.group, source.topic, source.queue_id
            block = self.orders.get(key)
            if block is not None and block.is_blocked(request.attempt_id, now):
                continue
            start = self._order_position(source, request)
            high = broker.store.search.max_offset(source.topic, source.queue_id)
            if start == high:
                continue
            if left <= 0:
                result.rest += max(high - start, 0)
                continue
            found = self._get(source, start, left, request)
            if found.status in _WRONG:
                found = self._get(source, found.next_begin_offset, left, request)
            if found.status is not GetStatus.NO_MATCHED_LOGIC_QUEUE:
                reads.append((source, key, start, found))
                left -= found.count
                result.rest += max(found.max_offset - found.next_begin_offset, 0)
        for source, key, start, found in reads:
            self._lend_in_order(result, request, source, key, start, found)
        return result

    def _order_position(self, source: _Source, request: PopRequest) -> int:
        offset = self._broker.offsets.query(request.group, source.topic, source.queue_id)
        return self._queue(source, request).position if offset < 0 else offset

    def _lend_in_order(
        self,
        result: PopResult,
        request: PopRequest,
        source: _Source,
        key: QueueKey,
        start: int,
        found: GetResult,
    ) -> None:
        group, topic, queue_id = key
        records = list(records_of(found.views))
        if not records:
            if found.next_begin_offset != start:
                self._broker.offsets.commit(group, topic, queue_id, found.next_begin_offset)
                result.moved = True
            return
        offsets = [offset for offset, _ in records]
        due = self.revival.steady_ms() + request.invisible_ms
        block = self.orders.lend(key, offsets, result.pop_time, request.invisible_ms, due, request.attempt_id)
        shown = [(offset, record) for offset, record in records if offset not in block.acked]
        if not shown:
            # All of it was acknowledged out of order.
            self.orders.remove_before(key, found.next_begin_offset)
            self._broker.offsets.commit(group, topic, queue_id, found.next_begin_offset)
            result.moved = True
            return
        part = PoppedPart(
            topic,
            source.retry,
            queue_id,
            [offset for offset, _ in shown],
            [record for _, record in shown],
            block.counts,
        )
        self._lent(result, part, found, group)
        self.revival.wake_before(due)

    def _ack_in_order(self, group: str, stored: str, handle: ReceiptHandle) -> bool:
        key = group, stored, handle.queue_id
        offsets = self._broker.offsets
        following = self.orders.ack(key, handle.offset, handle.pop_time)
        if following is None:
            # The block may have been lost in a crash; what the group gets next was lent before.
            is_next = self.orders.get(key) is None and offsets.query(*key) == handle.offset
            if not is_next:
                return False
            following = handle.offset + 1
        if following > offsets.query(*key):
            offsets.commit(*key, following)
        block = self.orders.get(key)
        if block is None or not block.is_blocked(None, self.revival.steady_ms()):
            self.waiting.wake_group(real_topic(group, stored), group)
        return True
