"""Work on parts of files in several processes: `zlib.crc32` keeps the interpreter's lock for bodies below 5 KB, so threads
would take turns. The process that asks takes its share, so a new one has time to start. What is little is done at once.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Protocol, TypeVar

__all__ = ["WORTH_A_PROCESS", "Task", "Workers", "usable_cores"]

WORTH_A_PROCESS = 64 * 1024 * 1024
"""Bytes of tasks together: less is done before another process has started."""


class Task(Protocol):
    """A part of the work; `cost` is the bytes to look at."""

    @property
    def cost(self) -> int: ...


One = TypeVar("One", bound=Task)
Result = TypeVar("Result")


def usable_cores() -> int:
    """Cores that this process may use."""
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """`jobs` processes, this one among them; a context manager. Functions and tasks go by pickle."""

    def __init__(self, jobs: int = 1) -> None:
        self._others = max(jobs, 1) - 1
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(
        self, function: Callable[[One], Result], tasks: Sequence[One], progress: Callable[[int], None]
    ) -> list[Result]:
        """The results in the order of the tasks. `progress` is told the cost of each that is done."""
        if not self._others or len(tasks) < 2 or sum(task.cost for task in tasks) < WORTH_A_PROCESS:
            return [_told(function(task), task, progress) for task in tasks]
        futures = [self._submit(function, task, progress) for task in tasks]
        own = {}
        for number in reversed(range(len(tasks))):  # the pool takes them from the front
            if futures[number].cancel():
                own[number] = _told(function(tasks[number]), tasks[number], progress)
        return [own[number] if number in own else future.result() for number, future in enumerate(futures)]

    def _submit(
        self, function: Callable[[One], Result], task: One, progress: Callable[[int], None]
    ) -> Future[Result]:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._others, context, initializer=_ignore_interrupts)
        future = self._pool.submit(function, task)
        future.add_done_callback(lambda done: None if done.cancelled() else progress(task.cost))
        return future


def _told(result: Result, task: Task, progress: Callable[[int], None]) -> Result:
    progress(task.cost)
    return result


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal; the one that asked ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
