"""Turns of the event loop, which limit how long one connection may keep it while others wait.

A connection that has worked for `TURN_SECONDS` waits for its next turn. Only one of those that wait continues
at a time, and a whole round of the loop separates two turns: a request that arrives during a turn is handled
before the next one, however many clients ask for long work. A connection whose last read was long waits for a
turn before it reads again, so that clients that send little go first. Times are those of trio's clock, so
that a test can make every call cost a turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, TypeVar

import trio

T = TypeVar("T")
Job = Generator[None, None, None]

TURN_SECONDS = 0.0005
"""With 64 connections that send without a pause, 99 of 100 rounds of the loop take at most 1 ms."""
FIRST_STEPS = 8
"""Steps of long work that are done immediately: most requests have no more."""
EMPTIED_PER_STEP = 128
"""Entries of a table that are freed in one step."""


class Turns:
    """Schedules long work in one event loop, one task at a time."""

    def __init__(self) -> None:
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_taken = False
        self._last: object = None

    async def next(self) -> None:
        """Let all other tasks run, and return when it is the caller's turn.

        Tasks that become ready in one round of the loop run in any order, so requests that arrive during a
        turn get the next round to themselves. A task that was parked has already spent that round on being
        woken.
        """
        has_parked = self._is_taken
        if has_parked:
            await self._waiting.park()
        self._is_taken = True
        try:
            if not has_parked:
                await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        finally:
            self._is_taken = bool(self._waiting) and bool(self._waiting.unpark())
            self._last = None

    def took_turn(self, who: object) -> None:
        """Record whose turn it is."""
        self._last = who

    async def after_wait(self, who: object) -> None:
        """Return when it is the turn of a caller that has just waited for something else: immediately, if no
        other has had a turn since its last one."""
        if self._is_taken or self._last is not who:
            await self.next()
            self._last = who

    def pace(self) -> Pace:
        """Return the pace of long work that begins now."""
        return Pace(self)

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Do all steps, in as many turns as necessary, and return their result."""
        pace = self.pace()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await pace.step()


class Pace:
    """Divides one task's work, or the requests of one connection, into turns.

    Call `step` after each step of long work; a step must be much shorter than a turn. `waits` counts the
    waits for another turn.
    """

    __slots__ = ("_ends", "_looked", "_took", "_turns", "waits")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.begin()

    def begin(self) -> None:
        """Begin the next work."""
        self.waits = 0
        self._looked = trio.current_time()
        self._ends = self._looked + TURN_SECONDS
        self._took = 0.0

    def took(self, longest: float) -> float:
        """Return the seconds since the beginning, counting at most `longest` between two calls."""
        now = trio.current_time()
        self._took += min(now - self._looked, longest)
        self._looked = now
        return self._took

    @property
    def is_over(self) -> bool:
        """True if this turn is over and others should go first."""
        return trio.current_time() >= self._ends

    async def step(self) -> None:
        """Wait for the next turn if this one is over."""
        if self.is_over:
            await self.next()

    async def next(self) -> None:
        """Wait for the next turn."""
        self.waits += 1
        await self._turns.next()
        self._turns.took_turn(self)
        self._ends = trio.current_time() + TURN_SECONDS

    async def after_wait(self) -> None:
        """Wait for a turn after having waited for the peer."""
        await self._turns.after_wait(self)


def emptying(table: dict[Any, Any] | list[Any]) -> Generator[None, None, None]:
    """Empty a table in steps, because freeing thousands of entries at once takes longer than a turn."""
    while table:
        if isinstance(table, list):
            del table[-EMPTIED_PER_STEP:]
        else:
            for _ in range(min(EMPTIED_PER_STEP, len(table))):
                table.popitem()
        yield


@asynccontextmanager
async def emptied_on_error(turns: Turns, table: dict[Any, Any] | list[Any]) -> AsyncIterator[None]:
    """Empty a table in steps if the block that fills it is left by an exception, for example because its
    connection ends."""
    try:
        yield
    except BaseException:
        with trio.CancelScope(shield=True):
            await turns.run(emptying(table))
        raise


class Jobs:
    """Runs long work that no request waits for: all jobs in rotation, one step (up to the next yield)
    each."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._jobs: deque[Job] = deque()
        self._wake = trio.Event()

    def start(self, job: Job) -> None:
        self._jobs.append(job)
        self._wake.set()

    def begin(self, job: Job) -> None:
        """Do the first steps now, and start the job if there are more."""
        if sum(1 for _ in islice(job, FIRST_STEPS)) == FIRST_STEPS:
            self.start(job)

    async def run(self) -> None:
        """Run the service."""
        while True:
            if not self._jobs:
                self._wake = trio.Event()
                await self._wake.wait()
            pace = self._turns.pace()
            while self._jobs:
                job = self._jobs.popleft()
                if next(job, job) is None:  # a step yields None; the job itself is the default at its end
                    self._jobs.append(job)
                await pace.step()


Steps = Generator[None, None, Callable[[], Any]]
"""Long work: yields after each step, and returns a function that completes the reply without further steps.
If that raises NotReady, it is called again later."""


class LongWork:
    """Work that may take longer than a turn, returned by a handler in place of a reply.

    The first steps are done immediately. Later requests of the same connection wait for the remaining ones.
    """

    __slots__ = ("_error", "_finish", "_steps")

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._error: Exception | None = None
        self._finish: Callable[[], Any] | None = None

    def advance(self, steps: int = 1) -> bool:
        """Do up to `steps` steps. Return True once all are done."""
        try:
            for _ in range(steps):
                next(self._steps)
        except StopIteration as end:
            self._finish = end.value
        except Exception as error:  # raised by `finish`, and so the reply
            self._error = error
        else:
            return False
        return True

    async def run(self, turns: Turns) -> None:
        """Do all steps, in as many turns as necessary."""
        pace = turns.pace()
        await pace.next()
        while not self.advance():
            await pace.step()

    def finish(self) -> Any:
        """Return or raise the result, like a handler that had done all the work at once."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback refers back to this frame, and to all data that was read
        if self._finish is None:
            raise AssertionError("there are steps left")
        return self._finish()
