"""The pulled and unacknowledged messages of one queue (Java `ProcessQueue`), by ascending queue offset.

The lowest offset among them is the offset of the group. Sizes are bytes of bodies, times are seconds on
trio's clock; `*_ms` are epoch milliseconds for the running info.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice

import trio

from rmqcli.client.group.queue_life import QueueLife
from rmqcli.client.pull.next_pull import Idle
from rmqcli.codec.codes import MASTER_ID
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue

PULL_MAX_IDLE = 120.0  # seconds; rocketmq.client.pull.pullMaxIdleTime
LOCK_VALIDITY = 30.0  # seconds; rocketmq.client.rebalance.lockMaxLiveTime
NOTHING = -1


class Held:
    """A queue that is assigned to a consumer, which pulls from it or pops.

    `in_flight`: calls of the listener on its messages. `dropped`: no further pull or listener call begins.
    """

    def __init__(self, queue: MessageQueue, now_ms: int) -> None:
        self.queue = queue
        self.in_flight = 0
        self.dropped = False
        self.scope = trio.CancelScope()
        # As in Java, these start at the present time: mqadmin reports a queue with messages that was last
        # consumed long ago as blocked.
        self.last_pull_ms = self.last_consume_ms = now_ms
        self.idle = Idle()
        self._quiet = trio.lowlevel.ParkingLot()

    def begin(self, batch: list[MessageExt]) -> list[MessageExt]:
        """Return the messages of a batch that the listener may still consume."""
        return batch

    def queue_of(self, batch: list[MessageExt]) -> MessageQueue:
        """Return the queue that the messages of a batch are stored in."""
        return self.queue

    def done(self) -> None:
        self.in_flight -= 1
        if not self.in_flight and self._quiet:
            self._quiet.unpark_all()

    def drop(self) -> None:
        """End pulls, and let no more listener calls begin."""
        self.dropped = True
        self.scope.cancel()

    async def wait_quiet(self) -> None:
        """Wait until no listener works on the queue."""
        while self.in_flight:
            await self._quiet.park()


class ProcessQueue(Held):
    """One queue of a consumer.

    `closed`: its offset is stored, and acknowledgements no longer count. `retiring`: a task other than the
    rebalance removes it. `illegal`: it retires because its offset was not in the broker's queue.
    `unlock_tries`: failed attempts to release it while a listener was busy.
    """

    def __init__(self, queue: MessageQueue, next_offset: int, now_ms: int) -> None:
        super().__init__(queue, now_ms)
        self.next_offset = next_offset
        self.max_offset = 0  # of the last pull
        self.messages: OrderedDict[int, MessageExt] = OrderedDict()
        self.taken: OrderedDict[int, MessageExt] = OrderedDict()
        self.size = 0
        self.end = 0
        self.closed = False
        self.retiring = False
        self.illegal = False
        self.suggested_broker = MASTER_ID
        self.previously_locked = False
        self.unlock_tries = 0
        self.locked_at = -math.inf
        self.pulled_at = trio.current_time()
        self.last_lock_ms = now_ms
        self.life = QueueLife()
        self._arrival = trio.lowlevel.ParkingLot()

    @property
    def count(self) -> int:
        return len(self.messages) + len(self.taken)

    @property
    def consumed(self) -> int:
        """The offset below which all messages are consumed."""
        # Both are in the order of offsets, so the first of each is the lowest.
        waiting = [*islice(self.messages, 1), *islice(self.taken, 1)]
        return min(waiting, default=self.next_offset)

    @property
    def span(self) -> int:
        return next(reversed(self.messages)) - next(iter(self.messages)) if self.messages else 0

    @property
    def locked(self) -> bool:
        return trio.current_time() - self.locked_at <= LOCK_VALIDITY

    def lock(self, now_ms: int) -> None:
        self.locked_at = trio.current_time()
        self.last_lock_ms = now_ms

    def unlock(self) -> None:
        self.locked_at = -math.inf

    @property
    def idle_too_long(self) -> bool:
        return trio.current_time() - self.pulled_at > PULL_MAX_IDLE

    def put(self, messages: Sequence[MessageExt]) -> list[MessageExt]:
        """Add pulled messages. Return those that are new."""
        known, taken = self.messages, self.taken
        fresh = [m for m in messages if m.queue_offset not in known and m.queue_offset not in taken]
        for message in fresh:
            known[message.queue_offset] = message
            self.size += len(message.body)
        if fresh:
            self.end = max(self.end, fresh[-1].queue_offset + 1)
            self._arrival.unpark_all()
        return fresh

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """Remove consumed messages.

        Return the offset below which all are consumed, or -1 if the queue was empty.
        """
        known = self.messages
        if not known:
            return NOTHING
        for message in messages:
            if known.pop(message.queue_offset, None) is not None:
                self.size -= len(message.body)
        return next(iter(known)) if known else self.end

    def take(self, count: int) -> list[MessageExt]:
        """Return the first messages, for an orderly listener. They stay uncommitted."""
        batch: list[MessageExt] = []
        while self.messages and len(batch) < count:
            offset, message = self.messages.popitem(last=False)
            self.taken[offset] = message
            batch.append(message)
        return batch

    def commit(self) -> int:
        """Remove the taken messages. Return the next offset, or -1 if there were none."""
        if not self.taken:
            return NOTHING
        next_offset = next(reversed(self.taken)) + 1
        self.size -= sum(len(message.body) for message in self.taken.values())
        self.taken.clear()
        return next_offset

    def put_back(self, batch: Iterable[MessageExt] | None = None) -> None:
        """Return taken messages (None: all of them) to the queue, in order."""
        chosen = list(self.taken.values() if batch is None else batch)
        # Reversed, because each message is moved to the front.
        for message in reversed(chosen):
            if self.taken.pop(message.queue_offset, None) is not None:
                self.messages[message.queue_offset] = message
                self.messages.move_to_end(message.queue_offset, last=False)

    def drop(self) -> None:
        super().drop()
        self._arrival.unpark_all()

    async def wait_for_messages(self) -> None:
        while not self.messages and not self.dropped:
            await self._arrival.park()
