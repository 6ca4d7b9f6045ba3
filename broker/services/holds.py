"""Holds pulls until a message arrives: long polling (Java `PullRequestHoldService`).

A held pull is answered when a message that its filter accepts arrives in its queue, or when its time is over
(Java checks the time only every 5 s). An arrival touches only the held pulls of its own queue. The service
sends the replies after the batch that stored the messages, so that one reply carries all of them. Times are
seconds of trio's clock.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import trio

from broker.store.values import Arrival, StoreMessage

ANSWERS_PER_TURN = 64
"""Pulls to answer before other tasks run."""


@dataclass(slots=True, eq=False)
class Hold:
    """A held pull.

    `accepts` are the tag codes that it accepts, None for all; `wants` filters by properties. `request` is
    what the handler of pulls needs to reply.
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


class Holds:
    """Held pulls by queue. `answer`, which must not raise, is called once for each, unless its session closes
    first.

    `max_holds` bounds all held pulls, `max_of_session` those of one session. `spare_deadlines` bounds how
    many deadlines of answered pulls are kept before they are removed together.
    """

    def __init__(
        self,
        answer: Callable[[Hold], None],
        *,
        max_holds: int = 200_000,
        max_of_session: int = 20_000,
        spare_deadlines: int = 1024,
    ) -> None:
        self.max_holds = max_holds
        self.max_of_session = max_of_session
        self.spare_deadlines = spare_deadlines
        self._answer = answer
        self._queues: dict[QueueKey, dict[Hold, None]] = {}
        self._sessions: dict[Hashable, dict[Hold, None]] = {}
        self._deadlines: list[tuple[float, int, Hold]] = []
        self._order = count()
        self._ready: list[Hold] = []
        self._wake = trio.Event()
        self._sleeps_until = math.inf
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, hold: Hold) -> bool:
        """Holds a pull. Returns False when there are too many: answer it at once."""
        of_session = self._sessions.get(hold.session)
        if self._count >= self.max_holds or len(of_session or ()) >= self.max_of_session:
            return False
        if of_session is None:
            of_session = self._sessions[hold.session] = {}
        of_session[hold] = None
        self._queues.setdefault((hold.topic, hold.queue_id), {})[hold] = None
        heapq.heappush(self._deadlines, (hold.deadline, next(self._order), hold))
        self._count += 1
        if hold.deadline < self._sleeps_until:
            self._wake.set()
        return True

    def arrived(self, arrivals: Sequence[Arrival]) -> None:
        """Wakes the pulls that messages are for: an arrival listener of the store."""
        queues = self._queues
        if not queues:
            return
        for message, result in arrivals:
            waiting = queues.get((message.topic, message.queue_id))
            if waiting is not None:
                self._wake_waiting(waiting, message, result.queue_offset)

    def _wake_waiting(self, waiting: Iterable[Hold], message: StoreMessage, queue_offset: int) -> None:
        woken = [
            hold
            for hold in waiting
            if hold.offset <= queue_offset
            and (hold.accepts is None or message.tags_code in hold.accepts)
            and (hold.wants is None or hold.wants(message.properties))
        ]
        for hold in woken:
            self._release(hold)
        if woken:
            self._ready += woken
            self._wake.set()

    def drop_session(self, session: Hashable) -> None:
        """Drops the pulls of a session that closed."""
        for hold in list(self._sessions.get(session, ())):
            self._release(hold)
        self._ready = [hold for hold in self._ready if hold.session is not session]

    async def run(self) -> None:
        """Answers pulls until cancelled."""
        while True:
            await self._rest()
            self._expire()
            ready, self._ready = self._ready, []
            for n, hold in enumerate(ready):
                self._answer(hold)
                if n % ANSWERS_PER_TURN == ANSWERS_PER_TURN - 1:
                    await trio.lowlevel.checkpoint()

    async def _rest(self) -> None:
        self._wake = trio.Event()
        if self._ready:
            return
        self._sweep()
        self._sleeps_until = self._deadlines[0][0] if self._deadlines else math.inf
        with trio.move_on_at(self._sleeps_until):
            await self._wake.wait()
        self._sleeps_until = -math.inf

    def _expire(self) -> None:
        now = trio.current_time()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, hold = heapq.heappop(self._deadlines)
            if self._is_held(hold):
                self._release(hold)
                self._ready.append(hold)

    def _is_held(self, hold: Hold) -> bool:
        return hold in self._sessions.get(hold.session, ())

    def _release(self, hold: Hold) -> None:
        self._count -= 1
        _remove(self._sessions, hold.session, hold)
        _remove(self._queues, (hold.topic, hold.queue_id), hold)

    def _sweep(self) -> None:
        if len(self._deadlines) > 2 * self._count + self.spare_deadlines:
            self._deadlines = [entry for entry in self._deadlines if self._is_held(entry[2])]
            heapq.heapify(self._deadlines)


def _remove(table: dict[Any, dict[Hold, None]], key: Hashable, hold: Hold) -> None:
    holds = table[key]
    del holds[hold]
    if not holds:
        del table[key]
