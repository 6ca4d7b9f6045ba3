"""Clocks for nodes, and what a thread does while it waits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

NowMs = Callable[[], int]
"""Milliseconds since the epoch."""
Timer = Callable[[], float]
"""Seconds since any moment, with a resolution of a microsecond or better."""


def system_now_ms() -> int:
    """Return the wall-clock time of this machine."""
    return time.time_ns() // 1_000_000


give_way: Callable[[], object] = getattr(os, "sched_yield", partial(time.sleep, 0))
"""Offers the core to other threads."""
