"""From a synchronous command to trio and back. trio is imported here, when a command runs, not before."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["now_ms", "run_async", "warn"]

T = TypeVar("T")


def run_async(main: Callable[[], Awaitable[T]]) -> T:
    """Runs to the end; errors may come in groups (see `rmqcli.failures`)."""
    import trio

    return trio.run(main)


def now_ms() -> int:
    """The wall clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000


def warn(text: str) -> None:
    """One line on standard error."""
    print(f"rmq: {text}", file=sys.stderr, flush=True)
