"""Delivery to a concurrent listener, in any order (Java `ConsumeMessageConcurrentlyService`).

A fixed number of worker tasks takes batches from one list, so that a quick listener costs no task and no
wake-up per message. A worker lets other tasks run every FAIR batches. There is no await between the return of
the listener and the new offset, so an acknowledgement counts even if the consumer is cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import trio

from rmqcli.client.functions import from_the_application
from rmqcli.client.push.pop_queue import PopQueue
from rmqcli.client.push.process_queue import Held, ProcessQueue
from rmqcli.client.push.send_back import SendBack, consumed_again
from rmqcli.client.push.state import NO_RESULT, Call, ConsumeContext, ConsumeResult, GroupState, log
from rmqcli.codec.message import MessageExt, PropertyName

FAIR = 16
LOCAL_RETRY = 5.0  # seconds until messages that could not be sent back are consumed again
# Java also sends back at most 16 messages of a queue in a round, with delay level 3.
EXPIRED_AT_ONCE = 16
EXPIRED_LEVEL = 3

Batch = list[MessageExt]


class ConcurrentService:
    """Runs the listener on submitted messages, in `consumers` tasks."""

    def __init__(self, state: GroupState, call: Call, back: SendBack) -> None:
        self._state = state
        self._call = call
        self._back = back
        self._ready: deque[tuple[Held, Batch]] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            for number in range(self._state.settings.consumers):
                self._nursery.start_soon(self._work, name=f"consumer {number} of {self._state.group}")
            self._nursery.start_soon(self._expire)

    def submit(self, held: Held, messages: Sequence[MessageExt]) -> None:
        """Split pulled messages into batches for the listener."""
        size = self._state.settings.batch_size
        self._ready.extend(
            (held, list(messages[start : start + size])) for start in range(0, len(messages), size)
        )
        self._idle.unpark()

    async def _work(self) -> None:
        ready, state, turn = self._ready, self._state, 0
        while True:
            if not ready:
                await self._idle.park()
                # A worker wakes the next one only while batches remain: a quick listener needs only one.
                if len(ready) > 1:
                    self._idle.unpark()
                continue
            held, batch = ready.popleft()
            if not held.dropped and not state.stopping and (batch := held.begin(batch)):
                await self._consume(held, batch)
            turn += 1
            if turn % FAIR == 0:
                await trio.lowlevel.checkpoint()

    async def _consume(self, held: Held, batch: Batch) -> None:
        state, queue = self._state, held.queue_of(batch)
        started = str(state.instance.now_ms())
        for message in batch:
            message.properties[PropertyName.CONSUME_START_TIME] = started
        context = ConsumeContext(state.instance.namespace.unwrap_queue(queue))
        held.in_flight += 1
        try:
            begun = trio.current_time()
            result = await self._ask(batch, context)
            counts = state.statistics[queue.topic]
            counts.consume_time.add((trio.current_time() - begun) * 1000)
            acknowledged = _acknowledged(result, context, len(batch))
            counts.ok.add(acknowledged)
            if acknowledged < len(batch):
                counts.failed.add(len(batch) - acknowledged)
            if isinstance(held, PopQueue):
                held.fail(batch[acknowledged:], context.delay_level)
                held.remove(batch)
            elif isinstance(held, ProcessQueue):
                await self._settle(held, batch, acknowledged, context.delay_level)
        finally:
            held.last_consume_ms = state.instance.now_ms()
            held.done()

    async def _settle(self, held: ProcessQueue, batch: Batch, acknowledged: int, delay_level: int) -> None:
        if acknowledged == len(batch):
            self._state.acknowledge(held, held.remove(batch))
        else:
            await self._failed(held, batch, batch[acknowledged:], delay_level)

    async def _ask(self, batch: Batch, context: ConsumeContext) -> ConsumeResult | None:
        try:
            result: ConsumeResult | None = await self._call(batch, context)
        except Exception as error:  # raised by the application; the messages are not consumed
            log.warning(
                "the listener failed on %s; it is consumed again later",
                batch[0].msg_id,
                exc_info=from_the_application(error),
            )
            return None
        if not isinstance(result, ConsumeResult):
            log.warning(NO_RESULT, ConsumeResult.__name__, batch[0].msg_id)
            return None
        return result

    async def _failed(self, held: ProcessQueue, batch: Batch, failed: Batch, delay_level: int) -> None:
        kept: Batch = []
        if self._state.settings.broadcasting:
            for message in failed:
                log.warning("broadcasting: %s was not consumed and is dropped", message.msg_id)
        else:
            for message in failed:
                # The messages of a closed queue are delivered to its next owner, so they are not sent back.
                if not held.closed and not await self._back.send_back(message, delay_level):
                    consumed_again(message)
                    kept.append(message)
        offsets = {message.queue_offset for message in kept}
        done = [message for message in batch if message.queue_offset not in offsets]
        self._state.acknowledge(held, held.remove(done))
        if kept and self._nursery is not None:
            self._nursery.start_soon(self._later, held, kept)

    async def _later(self, held: ProcessQueue, kept: Batch) -> None:
        await trio.sleep(LOCAL_RETRY)
        self.submit(held, kept)

    async def _expire(self) -> None:
        """Send back messages that a listener has been processing for longer than `consume_timeout`."""
        timeout = self._state.settings.consume_timeout
        while True:
            await trio.sleep(timeout)
            for held in list(self._state.queues.values()):
                await self._expire_queue(held, self._state.instance.now_ms() - timeout * 1000)

    async def _expire_queue(self, held: ProcessQueue, before_ms: float) -> None:
        for _ in range(EXPIRED_AT_ONCE):
            message = next(iter(held.messages.values()), None)
            if message is None or held.closed or self._state.settings.broadcasting:
                return
            started = message.properties.get(PropertyName.CONSUME_START_TIME)
            if started is None or int(started) >= before_ms:
                return
            if not await self._back.send_back(message, EXPIRED_LEVEL):
                return
            log.warning("%s was consumed for too long; it was sent back", message.msg_id)
            self._state.acknowledge(held, held.remove([message]))


def _acknowledged(result: ConsumeResult | None, context: ConsumeContext, size: int) -> int:
    """Return the number of consumed messages: all, none, or those up to the ack index."""
    if result is not ConsumeResult.SUCCESS:
        return 0
    return max(0, min(context.ack_index + 1, size))
