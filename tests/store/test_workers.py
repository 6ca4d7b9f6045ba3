"""Tasks that two processes share: each is done once, and nobody waits while one is not begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from rmqcli.store.read.workers import Workers

ROOT = Path(__file__).parents[2]
TASKS = 8


class Mark(NamedTuple):
    """Leaves a file that is called by its number."""

    folder: Path
    number: int

    @property
    def cost(self) -> int:
        return self.number + 1


def leave(mark: Mark) -> tuple[int, int]:
    (mark.folder / str(mark.number)).touch(exist_ok=False)
    return mark.number, os.getpid()


def leave_the_first_at_last(mark: Mark) -> tuple[int, int]:
    """The last one when the first is begun, the first when all others are there."""
    if mark.number == 0:
        (mark.folder / "begun").touch()
        wait_for(mark.folder, TASKS)
    elif mark.number == TASKS - 1:
        wait_for(mark.folder, 1)
    return leave(mark)


def wait_for(folder: Path, files: int) -> None:
    limit = time.monotonic() + 30
    while len(list(folder.iterdir())) < files:
        assert time.monotonic() < limit, "tasks that are not begun wait behind one that is"
        time.sleep(0.01)


def marks(folder: Path) -> list[Mark]:
    folder.mkdir()
    return [Mark(folder, number) for number in range(TASKS)]


def test_each_task_is_done_once_in_run_after_run(tmp_path: Path) -> None:
    told: list[int] = []
    with Workers(2) as workers:
        for run in range(20):
            found = workers.run(leave, marks(tmp_path / str(run)), told.append)
            assert [number for number, _ in found] == list(range(TASKS))
    assert sum(told) == 20 * sum(range(1, TASKS + 1))


def test_no_task_waits_behind_one_that_takes_long(tmp_path: Path) -> None:
    """Those that the pool has handed out, but not begun, are taken by the process that asks."""
    with Workers(2) as workers:
        found = workers.run(leave_the_first_at_last, marks(tmp_path / "run"), lambda cost: None)
    assert [number for number, _ in found] == list(range(TASKS))


def test_an_error_of_a_task_is_raised(tmp_path: Path) -> None:
    taken = marks(tmp_path / "run")
    leave(taken[5])
    with Workers(2) as workers, pytest.raises(FileExistsError):
        workers.run(leave, taken, lambda cost: None)


def die_at_the_first(mark: Mark) -> tuple[int, int]:
    """When all others are done: their places in the pool are taken."""
    if mark.number == 0:
        (mark.folder / "begun").touch()
        wait_for(mark.folder, TASKS)
        os.kill(os.getpid(), signal.SIGKILL)
    wait_for(mark.folder, 1)
    return leave(mark)


KILLED = """
import sys
from pathlib import Path
from rmqcli.store.read.workers import WorkerKilled, Workers
from tests.store.test_workers import die_at_the_first, marks

with Workers(2) as workers:
    try:
        workers.run(die_at_the_first, marks(Path(sys.argv[1])), lambda cost: None)
    except WorkerKilled as error:
        print(error)
"""


def test_a_process_that_is_killed_ends_the_others(tmp_path: Path) -> None:
    """In a process of its own, which a time limit can end."""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    assert done.stdout == "another process of this command was killed: try again with --jobs 1\n"
