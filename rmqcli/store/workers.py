"""Tasks on parts of files, run by several processes.

The CRC of a small body holds the interpreter's lock, so threads do not help (two threads: 0.98 times the
speed of one; two processes: 1.6 times). The calling process works as well.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.context import BaseContext
from typing import Any, Protocol, TypeVar

WORTH_A_PROCESS = 64 * 1024 * 1024
"""If all tasks together have fewer bytes than this, they are done before another process has started."""

_LOOK_SECONDS = 0.5


class WorkerKilled(Exception):
    """Raised if a worker process was killed before it finished, possibly for lack of memory."""


class Task(Protocol):
    """A part of the work; `cost` is the number of bytes to read."""

    @property
    def cost(self) -> int: ...


Progress = Callable[[int], None]
"""Receives the cost of each finished task."""
One = TypeVar("One", bound=Task)
Result = TypeVar("Result")


class _Ends:
    """The tasks not started yet: workers take from the front, the calling process from the back.

    A pool hands out tasks before they start and cannot recall them, so the calling process would have to wait
    for them.
    """

    def __init__(self, context: BaseContext) -> None:
        # Shared with the workers, and guarded by its own lock.
        self._ends = context.Array("q", 2)

    def set(self, count: int) -> None:
        self._ends[:] = [0, count]

    def take_front(self, number: int) -> bool:
        """Claim a task for a worker. False if the calling process has claimed it."""
        with self._ends:
            if number >= self._ends[1]:
                return False
            # Workers may claim tasks out of order: the front is after the highest one claimed.
            self._ends[0] = max(self._ends[0], number + 1)
            return True

    def take_back(self) -> int | None:
        with self._ends:
            if self._ends[0] == self._ends[1]:
                return None
            self._ends[1] -= 1
            return int(self._ends[1])


class Workers:
    """Runs pickled tasks in `jobs` processes: this one, and others that live as long as the `with` block."""

    def __init__(self, jobs: int = 1) -> None:
        self._others = max(jobs, 1) - 1
        self._pool: ProcessPoolExecutor | None = None
        self._ends: _Ends | None = None

    def __enter__(self) -> Workers:
        if self._others:
            context = _context()
            self._ends = _Ends(context)
            self._pool = ProcessPoolExecutor(
                self._others, context, initializer=_serve, initargs=(os.getpid(), self._ends)
            )
            self._pool.submit(int)  # starts them now, before there are threads (of a progress bar, say)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(
        self, function: Callable[[One], Result], tasks: Sequence[One], progress: Progress
    ) -> list[Result]:
        """Return the results in the order of the tasks; `progress` receives the cost of each finished task.

        Raises WorkerKilled.
        """
        # A single task is done here sooner than it is passed on.
        if self._pool is None or self._ends is None or len(tasks) < 2:
            return [_with_progress(function(task), task, progress) for task in tasks]
        self._ends.set(len(tasks))
        futures = [
            self._pool.submit(_unless_claimed, function, number, task) for number, task in enumerate(tasks)
        ]
        for future, task in zip(futures, tasks, strict=True):
            future.add_done_callback(partial(_on_done, task, progress))
        own = {}
        while (number := self._ends.take_back()) is not None:
            own[number] = _with_progress(function(tasks[number]), tasks[number], progress)
        # This also waits for workers that find their task claimed, since otherwise they would take the number
        # of a task of the next run. Nothing is cancelled: a pool of Python 3.11 that encounters a cancelled
        # future after a process was killed never ends.
        wait(futures)
        try:
            return [
                own[number] if number in own else future.result()[0] for number, future in enumerate(futures)
            ]
        except BrokenProcessPool:
            raise WorkerKilled(
                "another process of this command was killed: try again with --jobs 1"
            ) from None


ALONE = Workers()
"""Runs all tasks in this process."""


def _context() -> BaseContext:
    """Use fork, which starts at once, only while there is no other thread; with threads it is not safe."""
    alone = threading.active_count() == 1
    forks = alone and "fork" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if forks else "spawn")


def _with_progress(result: Result, task: Task, progress: Progress) -> Result:
    progress(task.cost)
    return result


def _on_done(task: Task, progress: Progress, done: Future[list[Any]]) -> None:
    if not done.cancelled() and done.exception() is None and done.result():
        progress(task.cost)


class _Caller:
    """The state of the calling process as a worker sees it."""

    ends: _Ends


def _unless_claimed(function: Callable[[One], Result], number: int, task: One) -> list[Result]:
    """Run a task unless the calling process has claimed it."""
    return [function(task)] if _Caller.ends.take_front(number) else []


def _serve(caller: int, ends: _Ends) -> None:
    """Prepare a worker: it ignores Ctrl-C, and ends when the calling process is killed."""
    _Caller.ends = ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(caller,), daemon=True).start()


def _end_with(caller: int) -> None:
    # A process whose parent has ended gets another parent.
    while os.getppid() == caller:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
