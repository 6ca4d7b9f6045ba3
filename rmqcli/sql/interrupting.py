"""Work that Ctrl-C ends: in a thread, while the main thread, which alone receives the signal, waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

T = TypeVar("T")
Outcome = tuple[Any, BaseException | None]
Job = tuple[Callable[[], Any], "queue.SimpleQueue[Outcome]"]

PATIENCE = 0.5
"""Seconds after Ctrl-C in which the work can end; after that, it goes on without anybody waiting for it."""


class Worker:
    """One thread, as memory that several threads allocate in turn would not be reused."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        threading.Thread(target=_work, args=(self._jobs,), name="rmq sql", daemon=True).start()

    def run(self, work: Callable[[], T], cancel: Callable[[], None]) -> T:
        """Return what `work` returns, or raise its error. Ctrl-C calls `cancel` and raises KeyboardInterrupt;
        so does a signal whose handler raises SystemExit.

        What is run next waits for work that did not end.
        """
        ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._jobs.put((work, ended))
        try:
            found, error = ended.get()
        except (KeyboardInterrupt, SystemExit):
            cancel()
            with suppress(queue.Empty):
                ended.get(timeout=PATIENCE)
            raise
        if error is not None:
            raise error
        return cast(T, found)

    def end(self) -> None:
        """End the thread after its work."""
        self._jobs.put(None)


def _work(jobs: queue.SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        work, ended = job
        try:
            ended.put((work(), None))
        except BaseException as error:
            ended.put((None, error))
        del job, work, ended  # and what they hold
