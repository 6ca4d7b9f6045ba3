"""The times at which operations are due. Times are seconds after the begin of the run.

The load is open: an operation is due at its time whatever became of those before it, and its latency counts
from then. A server that stalls is thus charged for every operation that it delays (no coordinated omission).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """`rate` operations a second, `count` of them, those that start within `seconds`; None: no limit."""

    rate: float
    count: int | None = None
    seconds: float | None = None

    def due(self, number: int) -> float:
        """Return the time at which operation `number` (from 0) is due."""
        return number / self.rate

    @property
    def total(self) -> int | None:
        """The number of operations that become due; None: no end."""
        in_time = None if self.seconds is None else math.ceil(self.seconds * self.rate)
        limits = [limit for limit in (self.count, in_time) if limit is not None]
        return min(limits, default=None)

    def over(self, now: float) -> bool:
        """Return whether it is too late to start an operation."""
        return self.seconds is not None and now >= self.seconds
