"""Tools for cancellation tests: cancel at any step of a run, and list its tasks."""

from __future__ import annotations

import sys
from typing import Any

import trio


class CancelAt(trio.abc.Instrument):
    """Cancels a scope at the n-th step that `root` or its descendants (None: any task) take from now on,
    or at the first one of the task with a name.

    `steps` has the name of the task of each step until then.
    """

    def __init__(
        self, scope: trio.CancelScope, step: int | str, root: trio.lowlevel.Task | None = None
    ) -> None:
        self._scope = scope
        self._left = sys.maxsize if isinstance(step, str) else step
        self._name = step if isinstance(step, str) else None
        self._root = root
        self.steps: list[str] = []

    def before_task_step(self, task: Any) -> None:
        if self._left <= 0 or not self._counts(task):
            return
        self._left -= 1
        self.steps.append(task.name.rpartition(".")[2].partition(" of ")[0])
        if self._left == 0 or self.steps[-1] == self._name:
            self._left = 0
            trio.lowlevel.current_trio_token().run_sync_soon(self._scope.cancel)

    def _counts(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task is not self._root:
            task = None if task.parent_nursery is None else task.parent_nursery.parent_task
        return task is self._root


def tasks() -> set[trio.lowlevel.Task]:
    """All tasks of the run."""
    found: set[trio.lowlevel.Task] = set()
    root = trio.lowlevel.current_root_task()
    ahead = [root] if root else []
    while ahead:
        task = ahead.pop()
        found.add(task)
        ahead += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found
