"""From a synchronous command to trio and back. trio is imported here, when a command runs, not before."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

__all__ = ["now_ms", "run_async", "run_until_terminated"]

T = TypeVar("T")


def run_async(main: Callable[[], Awaitable[T]]) -> T:
    """Runs to the end; errors may come in groups (see `rmqcli.cli.errors`)."""
    import trio

    # Ctrl-C in the middle of a line of somebody's clean-up code would leave a different error than the interrupt.
    return trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)


def run_until_terminated(main: Callable[[], Awaitable[None]]) -> None:
    """As `run_async`; SIGTERM and SIGHUP let `main` clean up, and end the process after that. An ignored one stays ignored."""
    import trio

    ending = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    came: list[int] = []

    async def watch(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        came.append(await anext(signals))
        scope.cancel()

    async def watched() -> None:
        with trio.open_signal_receiver(*ending) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch, signals, nursery.cancel_scope)
                await main()
                nursery.cancel_scope.cancel()

    run_async(watched if ending else main)
    if came:
        signal.raise_signal(came[0])


def now_ms() -> int:
    """The wall clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000
