"""Progress of a Spark job, read from the status tracker of its session."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Event, Thread
from typing import Any

from rmqcli.render.output import warn

POLL_SECONDS = 0.2
PATIENCE = 75
"""Polls without a started task after which a warning is printed: 15 s."""
_GROUP = "spark.jobGroup.id"

Progress = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""A function of the number of tasks; its context yields a receiver of finished tasks."""
Look = Callable[[], tuple[int, int]]
"""Returns the running and the finished tasks."""


@contextmanager
def silent(tasks: int) -> Iterator[Callable[[int], None]]:
    yield lambda count: None


class Watch:
    """Reports the tasks finished since the last poll; warns once when none starts."""

    def __init__(self, tasks: int, look: Look, advance: Callable[[int], None]) -> None:
        self._tasks = tasks
        self._look = look
        self._advance = advance
        self._reported = 0
        self._waited = 0

    def poll(self) -> None:
        running, done = self._look()
        self._report(done)
        self._waited = 0 if running or self._reported else self._waited + 1
        if self._waited == PATIENCE:
            warn("no task has started yet: has the Spark master workers with free cores and memory?")

    def end(self) -> None:
        self._report(self._tasks)

    def _report(self, done: int) -> None:
        if done > self._reported:
            self._advance(done - self._reported)
            self._reported = done


@contextmanager
def followed(context: Any, tasks: int, progress: Progress) -> Iterator[None]:
    """Watch, in a thread, the job that the calling thread runs on this SparkContext."""
    group, before, over = f"rmq-{uuid.uuid4().hex}", context.getLocalProperty(_GROUP), Event()
    with progress(tasks) as advance:
        watch = Watch(tasks, lambda: _counts(context.statusTracker(), group), advance)
        thread = Thread(target=_watch, args=(watch, over), daemon=True)
        context.setLocalProperty(_GROUP, group)
        try:
            thread.start()
            yield
        finally:
            over.set()
            thread.join()
            context.setLocalProperty(_GROUP, before)
        watch.end()


def _watch(watch: Watch, over: Event) -> None:
    with suppress(Exception):  # a session that ended; whoever runs the job sees why
        while not over.wait(POLL_SECONDS):
            watch.poll()


def _counts(tracker: Any, group: str) -> tuple[int, int]:
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numActiveTasks for stage in known), sum(stage.numCompletedTasks for stage in known)
