"""Types of the clocks that a node is given: the wall clock of all timestamps, and a timer for durations."""

from __future__ import annotations

import time
from collections.abc import Callable

NowMs = Callable[[], int]
"""Milliseconds since the epoch."""
Timer = Callable[[], float]
"""Seconds since any moment, with a resolution of a microsecond or better."""


def system_now_ms() -> int:
    """Return the wall clock of this machine."""
    return time.time_ns() // 1_000_000
