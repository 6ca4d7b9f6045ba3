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

    # Ctrl-C in the middle of a line of somebody's clean-up code would leave a different error than the interrupt.
    return trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)


def now_ms() -> int:
    """The wall clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000


def warn(text: str) -> None:
    """One line on standard error. Names in it may be anybody's."""
    from rmqcli.render.text import printable

    print(f"rmq: {printable(text)}", file=sys.stderr, flush=True)
