"""Wall clock in milliseconds, as every timestamp of the protocol. Tests pass their own."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["NowMs", "system_now_ms"]

NowMs = Callable[[], int]


def system_now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
