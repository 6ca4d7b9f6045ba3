"""Turns of the event loop: how long one connection may keep it while others wait.

Whoever has worked for `TURN_SECONDS` waits for the next turn. Of all who wait so, one goes on in each round of
the loop: requests of other connections are handled in between, however many clients ask for long work.
Times are those of trio's clock, so that a test can let every call cost a turn.
"""

from __future__ import annotations

import trio

TURN_SECONDS = 0.002


class Turns:
    """The order of those who work for long in one event loop."""

    def __init__(self) -> None:
        self._waiting = trio.lowlevel.ParkingLot()
        self._is_taken = False

    async def next(self) -> None:
        """Lets all other tasks run, and returns when it is the caller's turn."""
        if self._is_taken:
            await self._waiting.park()
        self._is_taken = True
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._is_taken = bool(self._waiting.unpark())

    def pace(self) -> Pace:
        """The pace of one piece of long work that begins now."""
        return Pace(self)


class Pace:
    """Call `step` after each step of long work, a step being much shorter than a turn.

    `waits` counts how often it had to wait for another turn.
    """

    __slots__ = ("_ends", "_turns", "waits")

    def __init__(self, turns: Turns) -> None:
        self.waits = 0
        self._turns = turns
        self._ends = trio.current_time() + TURN_SECONDS

    @property
    def is_over(self) -> bool:
        """True when others should have their turn first."""
        return trio.current_time() >= self._ends

    async def step(self) -> None:
        """Waits for the next turn if this one is over."""
        if self.is_over:
            self.waits += 1
            await self._turns.next()
            self._ends = trio.current_time() + TURN_SECONDS
