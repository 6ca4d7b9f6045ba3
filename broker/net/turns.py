"""Turns of the event loop: how long one connection may keep it while others wait.

A connection that has worked for `TURN_SECONDS` waits for the next turn. Of all that wait so, one goes on at a
time, and between two turns is a whole round of the loop: a request that arrived during a turn is handled
before the next one, however many clients ask for long work. A connection whose last read was long waits for a
turn before it reads again, so that those who send little go first. Times are those of trio's clock, so that a
test can let every call cost a turn.
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
FIRST_STEPS = 8
"""Steps of long work that are done at once: most requests have no more."""
EMPTIED_PER_STEP = 128
"""Entries of a table that are freed at once."""


class Turns:
    """The order of those who work for long in one event loop."""

    def __init__(self) -> None:
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_taken = False
        self._last: object = None

    async def next(self) -> None:
        """Let all other tasks run, and return when it is the caller's turn.

        Tasks that become ready in one round of the loop run in any order, so what arrives during a turn has
        the next round to itself: one who was parked has just spent that on being woken.
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
        """Note whose turn it is."""
        self._last = who

    async def after_wait(self, who: object) -> None:
        """Return when it is the turn of a caller for whom all others could run just now: at once, if nobody
        else has had a turn since its last one."""
        if self._is_taken or self._last is not who:
            await self.next()
            self._last = who

    def pace(self) -> Pace:
        """Return the pace of one piece of long work that begins now."""
        return Pace(self)

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Do all steps, in as many turns as it takes; their result."""
        pace = self.pace()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await pace.step()


class Pace:
    """The turns of one piece of work after another, or of what one connection sends.

    Call `step` after each step of long work, a step being much shorter than a turn. `waits` counts how often
    it had to wait for another turn.
    """

    __slots__ = ("_ends", "_looked", "_took", "_turns", "waits")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.begin()

    def begin(self) -> None:
        """Begin the next piece of work."""
        self.waits = 0
        self._looked = trio.current_time()
        self._ends = self._looked + TURN_SECONDS
        self._took = 0.0

    def took(self, longest: float) -> float:
        """Seconds since the beginning; of those between two calls `longest` at most."""
        now = trio.current_time()
        self._took += min(now - self._looked, longest)
        self._looked = now
        return self._took

    @property
    def is_over(self) -> bool:
        """True when others should have their turn first."""
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
        """Wait for a turn of one who has waited for its peer."""
        await self._turns.after_wait(self)


def emptying(table: dict[Any, Any] | list[Any]) -> Generator[None, None, None]:
    """Empty a table in steps: to free thousands of entries at once takes longer than a turn."""
    while table:
        if isinstance(table, list):
            del table[-EMPTIED_PER_STEP:]
        else:
            for _ in range(min(EMPTIED_PER_STEP, len(table))):
                table.popitem()
        yield


@asynccontextmanager
async def emptied_on_error(turns: Turns, table: dict[Any, Any] | list[Any]) -> AsyncIterator[None]:
    """Empty a table in steps if the block that fills it is left early, as when its connection ends."""
    try:
        yield
    except BaseException:
        with trio.CancelScope(shield=True):
            await turns.run(emptying(table))
        raise


class Jobs:
    """Long work that no request waits for. Of all jobs each does one step, up to its next yield, in turn."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._jobs: deque[Job] = deque()
        self._wake = trio.Event()

    def start(self, job: Job) -> None:
        self._jobs.append(job)
        self._wake.set()

    def begin(self, job: Job) -> None:
        """Do the first steps at once, and start the job if there are more."""
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
                if next(job, job) is None:
                    self._jobs.append(job)
                await pace.step()


Steps = Generator[None, None, Callable[[], Any]]
"""Long work: it yields after each step, and returns what remains to be done, at once, for the reply. That
may raise NotReady, and is called again then."""


class LongWork:
    """A handler returns it in place of a reply when its work may take longer than a turn.

    The first steps are done at once. Later requests of the same connection wait for the others.
    """

    __slots__ = ("_error", "_finish", "_steps")

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._error: Exception | None = None
        self._finish: Callable[[], Any] | None = None

    def advance(self, steps: int = 1) -> bool:
        """Do so many steps; True once all are done."""
        try:
            for _ in range(steps):
                next(self._steps)
        except StopIteration as end:
            self._finish = end.value
        except Exception as error:  # it is the reply
            self._error = error
        else:
            return False
        return True

    async def run(self, turns: Turns) -> None:
        """Do all steps, in as many turns as it takes."""
        pace = turns.pace()
        await pace.next()
        while not self.advance():
            await pace.step()

    def finish(self) -> Any:
        """Return, or raise, as a handler that had done all this at once."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback leads back here, and to all that was read
        if self._finish is None:
            raise AssertionError("there are steps left")
        return self._finish()
