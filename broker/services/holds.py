"""Long polling: pulls are held until a message arrives (Java `PullRequestHoldService`).

A held pull is answered when a message that its filter accepts arrives in its queue, or when its time is over
(Java checks the time only every 5 s). Pulls are answered after the batch that stored the messages, so that
one reply carries all of them. There is one job for each queue with arrivals, each connection with replies to
send, and each connection that has ended. Times are seconds of trio's clock.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import msgspec
import trio

from rmqcli.broker.net.turns import Job, Jobs
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.properties import decode_properties

KeyT = TypeVar("KeyT")

TICKS = 16
"""Ticks per second, to which the deadlines of pulls are rounded up: the heap has an entry for each tick and
not for each of 200,000 pulls."""
MOST_ARRIVALS = 256
"""Maximum number of arrivals in one queue, before its job runs, that are compared with the filters of held
pulls; more wake all of them."""


class Hold(msgspec.Struct, eq=False, gc=False):
    """A held pull.

    `accepts` has the accepted tag codes, None for all; `wants` filters by properties. `request` has the data
    that the handler of pulls needs to reply. The garbage collector does not scan holds, because there may be
    200,000.
    """

    session: Hashable
    request: Any
    topic: str
    queue_id: int
    offset: int
    deadline: float
    accepts: frozenset[int] | None = None
    wants: Wants | None = None


QueueKey = tuple[str, int]
Wants = Callable[[Mapping[str, str]], bool]


@dataclass(slots=True)
class _Arrivals:
    """Messages that arrived in a queue: offset, tag code and stored properties of each."""

    last: int = -1
    messages: list[tuple[int, int, bytes]] = field(default_factory=list)

    def add(self, stored: QueueRun) -> None:
        self.last = stored.queue_offset + len(stored.codes) - 1
        if len(self.messages) <= MOST_ARRIVALS:
            self.messages += zip(count(stored.queue_offset), stored.codes, stored.texts)

    def wake(self, hold: Hold) -> bool:
        if hold.offset > self.last:
            return False
        if len(self.messages) > MOST_ARRIVALS or (hold.accepts is None and hold.wants is None):
            return True
        return any(
            hold.offset <= offset
            and (hold.accepts is None or tags_code in hold.accepts)
            and (hold.wants is None or hold.wants(decode_properties(properties)))
            for offset, tags_code, properties in self.messages
        )


class Holds:
    """Held pulls. `answer`, which must not raise, is called once for each, unless its session closes first.

    `max_holds` limits all held pulls, `max_of_session` those of one session, and `max_of_queue` those of one
    session in one queue, of which a client has one per consumer group.
    """

    def __init__(
        self,
        answer: Callable[[Hold], None],
        jobs: Jobs,
        *,
        max_holds: int = 200_000,
        max_of_session: int = 20_000,
        max_of_queue: int = 64,
    ) -> None:
        self.max_holds = max_holds
        self.max_of_session = max_of_session
        self.max_of_queue = max_of_queue
        self._answer = answer
        self._start = jobs.start
        self._queues: dict[QueueKey, dict[Hashable, dict[Hold, None]]] = {}
        self._sessions: dict[Hashable, dict[Hold, None]] = {}
        self._ticks: dict[int, dict[Hold, None]] = {}
        self._order: list[int] = []  # a heap of the keys of _ticks
        self._arrived: dict[QueueKey, _Arrivals] = {}
        self._ready: dict[Hashable, deque[Hold]] = {}
        self._wake = trio.Event()
        self._sleeps_until = math.inf
        self._count = 0
        self._left = 0  # pulls of closed sessions that `_forget` has not removed yet: they still use memory

    def __len__(self) -> int:
        return self._count

    def hold(self, hold: Hold) -> bool:
        """Hold a pull. Return False if there are too many; the caller must then answer it."""
        session, key, tick = hold.session, (hold.topic, hold.queue_id), _tick(hold)
        of_session = len(self._sessions.get(session, ())) + len(self._ready.get(session, ()))
        of_queue = self._queues.get(key, {}).get(session, ())
        if self._count + self._left >= self.max_holds or of_session >= self.max_of_session:
            return False
        if len(of_queue) >= self.max_of_queue:
            return False
        self._sessions.setdefault(session, {})[hold] = None
        self._queues.setdefault(key, {}).setdefault(session, {})[hold] = None
        if tick not in self._ticks:
            self._ticks[tick] = {}
            heapq.heappush(self._order, tick)
        self._ticks[tick][hold] = None
        self._count += 1
        if hold.deadline < self._sleeps_until:
            self._wake.set()
        return True

    def arrived(self, stored: QueueRun) -> None:
        """Wake the pulls that wait for the messages. This is an arrival listener of the store."""
        key = stored.topic, stored.queue_id
        if key not in self._queues:
            return
        arrivals = self._arrived.get(key)
        if arrivals is None:
            arrivals = self._arrived[key] = _Arrivals()
            self._start(self._match(key))
        arrivals.add(stored)

    def release_all(self) -> None:
        """Answer all held pulls now, because the permissions of their senders may have changed."""
        self._start(self._expire({hold: None for holds in self._sessions.values() for hold in holds}))

    def release_topic(self, topic: str) -> None:
        """Answer the held pulls of a topic now, because it is deleted."""
        queues = [of_queue for key, of_queue in self._queues.items() if key[0] == topic]
        holds = (one for of_queue in queues for of_session in of_queue.values() for one in of_session)
        self._start(self._expire(dict.fromkeys(holds)))

    def drop_session(self, session: Hashable) -> None:
        """Drop the pulls of a session that closed."""
        held, ready = self._sessions.pop(session, {}), self._ready.pop(session, deque())
        self._count -= len(held) + len(ready)
        self._left += len(held)
        if held or ready:
            self._start(self._forget(held, ready))

    async def run(self) -> None:
        """Run the service that answers pulls whose time is over."""
        while True:
            self._wake = trio.Event()
            self._sleeps_until = self._order[0] / TICKS if self._order else math.inf
            with trio.move_on_at(self._sleeps_until):
                await self._wake.wait()
            # `hold` need not wake a service that is awake.
            self._sleeps_until = -math.inf
            self._start_expired()

    # jobs

    def _match(self, key: QueueKey) -> Job:
        # All that has arrived before this first step; what comes later starts another job.
        arrivals = self._arrived.pop(key)
        for of_session in list(self._queues.get(key, {}).values()):
            for hold in list(of_session):
                # Since the last step, its time may have ended, or its session.
                if self._is_held(hold) and arrivals.wake(hold):
                    self._release(hold)
                yield

    def _start_expired(self) -> None:
        now = trio.current_time()
        while self._order and self._order[0] <= now * TICKS:
            self._start(self._expire(self._ticks.pop(heapq.heappop(self._order))))

    def _expire(self, holds: dict[Hold, None]) -> Job:
        for hold in holds:
            if self._is_held(hold):
                self._release(hold)
            yield

    def _answer_all(self, session: Hashable, ready: deque[Hold]) -> Job:
        # Between two steps, the session may close, or get another deque, with another job.
        while self._ready.get(session) is ready:
            self._count -= 1
            self._answer(ready.popleft())
            if not ready and self._ready.get(session) is ready:
                del self._ready[session]
            yield

    def _forget(self, held: dict[Hold, None], ready: deque[Hold]) -> Job:
        while held:
            self._remove(held.popitem()[0])
            self._left -= 1
            yield
        while ready:
            ready.pop()
            yield

    # internal

    def _is_held(self, hold: Hold) -> bool:
        return hold in self._sessions.get(hold.session, ())

    def _release(self, hold: Hold) -> None:
        """Move a held pull to those that are to be answered."""
        session = hold.session
        _drop(self._sessions, session, hold)
        self._remove(hold)
        ready = self._ready.get(session)
        if ready is None:
            ready = self._ready[session] = deque()
            self._start(self._answer_all(session, ready))
        ready.append(hold)

    def _remove(self, hold: Hold) -> None:
        key = hold.topic, hold.queue_id
        of_queue = self._queues[key]
        _drop(of_queue, hold.session, hold)
        if not of_queue:
            del self._queues[key]
        # `_start_expired` has taken the tick out of the table if the time of the pull is over.
        self._ticks.get(_tick(hold), {}).pop(hold, None)


def _tick(hold: Hold) -> int:
    return math.ceil(hold.deadline * TICKS)


def _drop(table: dict[KeyT, dict[Hold, None]], key: KeyT, hold: Hold) -> None:
    holds = table[key]
    del holds[hold]
    if not holds:
        del table[key]
