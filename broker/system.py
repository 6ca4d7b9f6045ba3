"""Clocks for nodes, and the way in which a waiting thread yields."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

NowMs = Callable[[], int]
"""Milliseconds since the epoch."""
Timer = Callable[[], float]
"""Seconds since any moment, with a resolution of a microsecond or better."""

MAX_ADVANCE_MS = 366 * 86_400_000


def system_now_ms() -> int:
    """Return the wall-clock time of this machine."""
    return time.time_ns() // 1_000_000


class MovableClock:
    """A wall clock that tests move forward."""

    __slots__ = ("ahead_ms", "now_ms")

    def __init__(self, now_ms: NowMs = system_now_ms) -> None:
        self.now_ms = now_ms
        self.ahead_ms = 0

    def __call__(self) -> int:
        return self.now_ms() + self.ahead_ms

    def advance(self, milliseconds: int) -> None:
        """Move forward. Raises ValueError for a negative duration, or more than a year."""
        if milliseconds < 0:
            raise ValueError(f"a clock only advances: {milliseconds} ms is negative")
        if milliseconds > MAX_ADVANCE_MS:
            raise ValueError(f"a clock advances by at most a year at once, not by {milliseconds} ms")
        self.ahead_ms += milliseconds


give_way: Callable[[], object] = getattr(os, "sched_yield", partial(time.sleep, 0))
"""Offers the core to other threads."""
