"""Runs asynchronous code from a synchronous command. trio is imported only when a command runs."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_ENDING = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


def run_async(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` to its end. Errors may come in groups (see `rmqcli.cli.errors`)."""
    import trio

    # Ctrl-C inside clean-up code could otherwise surface as a different error.
    return trio.run(main, restrict_keyboard_interrupt_to_checkpoints=True)


def run_until_terminated(main: Callable[[], Awaitable[None]]) -> None:
    """Run `main` as `run_async` does; SIGTERM and SIGHUP let it clean up and then end the process, unless
    they are ignored.
    """
    import trio

    ending = [one for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    received: list[int] = []

    async def watch(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        received.append(await anext(signals))
        scope.cancel()

    async def watched() -> None:
        with trio.open_signal_receiver(*ending) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch, signals, nursery.cancel_scope)
                await main()
                nursery.cancel_scope.cancel()

    run_async(watched if ending else main)
    # The signal has its former action again: the parent process sees that it ended this one.
    if received:
        signal.raise_signal(received[0])


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP leave the block, which cleans up, and then end the process, unless they are
    ignored. For blocks without trio, in the main thread.
    """
    received: list[int] = []

    def leave(number: int, frame: object) -> None:
        received.append(number)
        raise SystemExit

    former = {one: signal.getsignal(one) for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN}
    try:
        for one in former:
            signal.signal(one, leave)
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)
        if received:
            signal.raise_signal(received[0])


def now_ms() -> int:
    """Return the wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000
