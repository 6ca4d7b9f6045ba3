"""Work that Ctrl-C ends: in a thread, while the main thread, which alone receives the signal, waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

T = TypeVar("T")

PATIENCE = 0.5
"""Seconds after Ctrl-C in which the work can end; after that, it goes on without anybody waiting for it."""


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Returns what `work` returns, or raises its error. Ctrl-C calls `cancel` and raises KeyboardInterrupt."""
    ended: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put((work(), None))
        except BaseException as error:
            ended.put((None, error))

    threading.Thread(target=run, name="rmq sql", daemon=True).start()
    try:
        found, error = ended.get()
    except KeyboardInterrupt:
        cancel()
        with suppress(queue.Empty):
            ended.get(timeout=PATIENCE)
        raise
    if error is not None:
        raise error
    return cast(T, found)
