"""Work on parts of files in several processes: a CRC of a small body keeps the interpreter's lock, so threads take turns (two
of them: 0.98 times the speed of one; two processes 1.6 times). The process that asks takes its share.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing.context import BaseContext
from typing import Any, Protocol, TypeVar

__all__ = ["ALONE", "WORTH_A_PROCESS", "Task", "Workers", "usable_cores"]

WORTH_A_PROCESS = 64 * 1024 * 1024
"""Bytes of tasks together: less is done before another process has started."""

_LOOK_SECONDS = 0.5


class Task(Protocol):
    """A part of the work; `cost` is the bytes to look at."""

    @property
    def cost(self) -> int: ...


One = TypeVar("One", bound=Task)
Result = TypeVar("Result")


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """`jobs` processes, this one among them; the others live as long as the block. Functions and tasks go by pickle."""

    def __init__(self, jobs: int = 1) -> None:
        self._others = max(jobs, 1) - 1
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self._others:
            self._pool = ProcessPoolExecutor(
                self._others, _context(), initializer=_serve, initargs=(os.getpid(),)
            )
            self._pool.submit(int)  # they start now, before there are threads (of a progress bar, say)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(
        self, function: Callable[[One], Result], tasks: Sequence[One], progress: Callable[[int], None]
    ) -> list[Result]:
        """The results in the order of the tasks. `progress` is told the cost of each that is done."""
        if self._pool is None or len(tasks) < 2:
            return [_told(function(task), task, progress) for task in tasks]
        futures = [self._pool.submit(function, task) for task in tasks]
        for future, task in zip(futures, tasks, strict=True):
            future.add_done_callback(partial(_tell, task, progress))
        own = {}
        for number in reversed(range(len(tasks))):  # the pool takes them from the front
            if futures[number].cancel():
                own[number] = _told(function(tasks[number]), tasks[number], progress)
        return [own[number] if number in own else future.result() for number, future in enumerate(futures)]


ALONE = Workers()
"""This process only."""


def _context() -> BaseContext:
    """A fork starts at once, but only of a process without other threads is it safe."""
    alone = threading.active_count() == 1
    forks = alone and "fork" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if forks else "spawn")


def _told(result: Result, task: Task, progress: Callable[[int], None]) -> Result:
    progress(task.cost)
    return result


def _tell(task: Task, progress: Callable[[int], None], done: Future[Any]) -> None:
    if not done.cancelled():
        progress(task.cost)


def _serve(asker: int) -> None:
    """Ctrl-C reaches every process of a terminal; the one that asked ends the others. When it is killed, they end by themselves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(asker,), daemon=True).start()


def _end_with(asker: int) -> None:
    while os.getppid() == asker:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
