"""Delivery to an orderly listener (Java `ConsumeMessageOrderlyService`).

There is one call at a time per queue, in queue order, while the broker's lock is valid. Each queue has a
task; at most `consumers` of them run the listener at once. A task pauses when there are no messages, or after
CONTINUOUS seconds (`rocketmq.client.maxTimeConsumeContinuously`). There is no await between the return of the
listener and the new offset.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from rmqcli.client.functions import from_the_application
from rmqcli.client.push.process_queue import Held, ProcessQueue
from rmqcli.client.push.rebalance import Locks
from rmqcli.client.push.send_back import SendBack, consumed_again
from rmqcli.client.push.state import NO_RESULT, Call, GroupState, OrderlyContext, OrderlyResult, log
from rmqcli.codec.message import MessageExt

LOCKED_AGAIN = 0.01
CONTINUOUS = 60.0
ANOTHER_TURN = 0.01  # seconds of pause after CONTINUOUS seconds
LOCK_REFUSED = 3.0  # seconds until the next attempt, as in Java; LOCKED_AGAIN if the lock was granted
SHORTEST_SUSPEND, LONGEST_SUSPEND = 0.01, 30.0

Batch = list[MessageExt]


class OrderlyService:
    """Runs the listener on queues; `consume_queue` is the task of one queue."""

    def __init__(self, state: GroupState, call: Call, back: SendBack, locks: Locks) -> None:
        self._state = state
        self._call = call
        self._back = back
        self._locks = locks
        self._limit = state.settings.reconsume_limit(orderly=True)
        self._turns = trio.Semaphore(state.settings.consumers)

    def submit(self, held: Held, messages: Sequence[MessageExt]) -> None:
        """Do nothing, because the task of the queue takes messages from it."""

    async def consume_queue(self, held: ProcessQueue) -> None:
        while not held.dropped:
            await held.wait_for_messages()
            if self._state.needs_locks and not held.locked:
                await self._lock_again(held)
                continue
            async with self._turns:
                pause = await self._turn(held)
            if pause:
                await trio.sleep(pause)

    async def _turn(self, held: ProcessQueue) -> float:
        """Consume batch after batch. Return the seconds until the task continues."""
        state, begun = self._state, trio.current_time()
        while held.messages:
            # The lock or the queue may have been lost during the wait for the semaphore or the last batch.
            if held.dropped or state.stopping or (state.needs_locks and not held.locked):
                return LOCKED_AGAIN
            if trio.current_time() - begun > CONTINUOUS:
                return ANOTHER_TURN
            pause = await self._consume(held)
            if pause:
                return pause
            await trio.lowlevel.checkpoint()
        return 0.0

    async def _lock_again(self, held: ProcessQueue) -> None:
        granted = await self._locks.lock(held.queue)
        await trio.sleep(LOCKED_AGAIN if granted else LOCK_REFUSED)

    async def _consume(self, held: ProcessQueue) -> float:
        """Consume one batch. Return the seconds until the next one."""
        state = self._state
        batch = held.take(state.settings.batch_size)
        if not batch:
            return 0.0
        held.last_consume_ms = state.instance.now_ms()
        context = OrderlyContext(state.instance.namespace.unwrap_queue(held.queue))
        held.in_flight += 1
        try:
            begun = trio.current_time()
            result = await self._ask(batch, context)
            counts = state.statistics[held.queue.topic]
            counts.consume_time.add((trio.current_time() - begun) * 1000)
            if result is OrderlyResult.SUSPEND:
                counts.failed.add(len(batch))
            elif context.auto_commit or result is OrderlyResult.SUCCESS:
                counts.ok.add(len(batch))
            return await self._finish(held, batch, result, context)
        except trio.Cancelled:
            held.put_back()
            raise
        finally:
            held.done()

    async def _ask(self, batch: Batch, context: OrderlyContext) -> OrderlyResult:
        try:
            result = await self._call(batch, context)
            if result is None:
                log.warning(NO_RESULT, OrderlyResult.__name__, batch[0].msg_id)
                return OrderlyResult.SUSPEND
            return OrderlyResult(result)
        except (
            Exception
        ) as error:  # from the application, or a ValueError for the result of another kind of listener
            log.warning(
                "the listener failed on %s; its queue waits",
                batch[0].msg_id,
                exc_info=from_the_application(error),
            )
            return OrderlyResult.SUSPEND

    async def _finish(
        self, held: ProcessQueue, batch: Batch, result: OrderlyResult, context: OrderlyContext
    ) -> float:
        if context.auto_commit and result is not OrderlyResult.SUSPEND:
            if result is not OrderlyResult.SUCCESS:
                log.warning("%s needs a context with auto_commit=False; treated as SUCCESS", result.name)
            self._state.acknowledge(held, held.commit())
            return 0.0
        if result is OrderlyResult.SUCCESS:
            return 0.0  # without auto_commit, the messages stay taken until the listener returns COMMIT
        if result is OrderlyResult.COMMIT:
            self._state.acknowledge(held, held.commit())
            return 0.0
        if result is OrderlyResult.ROLLBACK:
            held.put_back()
            return self._pause(context)
        return await self._suspend(held, batch, context)

    async def _suspend(self, held: ProcessQueue, batch: Batch, context: OrderlyContext) -> float:
        if not await self._all_given_up(batch):
            held.put_back(batch)
            return self._pause(context)
        if context.auto_commit:
            self._state.acknowledge(held, held.commit())
        return 0.0

    async def _all_given_up(self, batch: Batch) -> bool:
        """Return True if all messages reached the limit and became dead letters."""
        given_up = 0
        for message in batch:
            if message.reconsume_times < self._limit or not await self._back.give_up(message):
                consumed_again(message)
            else:
                given_up += 1
        return given_up == len(batch)

    def _pause(self, context: OrderlyContext) -> float:
        wanted = self._state.settings.suspend_time if context.suspend_time is None else context.suspend_time
        return min(max(wanted, SHORTEST_SUSPEND), LONGEST_SUSPEND)
