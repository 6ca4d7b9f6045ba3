"""Tasks for worker processes: each leaves a file named after its number."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

from tests.support import PATIENCE

TASKS = 8


class Mark(NamedTuple):
    """Leaves a file that is named after its number."""

    folder: Path
    number: int

    @property
    def cost(self) -> int:
        return self.number + 1


def leave(mark: Mark) -> tuple[int, int]:
    (mark.folder / str(mark.number)).touch(exist_ok=False)
    return mark.number, os.getpid()


def leave_the_first_at_last(mark: Mark) -> tuple[int, int]:
    """Makes the last task wait for the first to start, and the first for all others."""
    if mark.number == 0:
        (mark.folder / "begun").touch()
        wait_for(mark.folder, TASKS)
    elif mark.number == TASKS - 1:
        wait_for(mark.folder, 1)
    return leave(mark)


def wait_for(folder: Path, files: int) -> None:
    limit = time.monotonic() + PATIENCE
    while len(list(folder.iterdir())) < files:
        assert time.monotonic() < limit, "tasks that are not begun wait behind one that is"
        time.sleep(0.01)


def marks(folder: Path) -> list[Mark]:
    folder.mkdir()
    return [Mark(folder, number) for number in range(TASKS)]


def die_at_the_first(mark: Mark) -> tuple[int, int]:
    """Kills the process of the first task when all others are done: their places in the pool are in use."""
    if mark.number == 0:
        (mark.folder / "begun").touch()
        wait_for(mark.folder, TASKS)
        os.kill(os.getpid(), signal.SIGKILL)
    wait_for(mark.folder, 1)
    return leave(mark)
