"""Tasks shared by two processes: each is done once, and no process waits for one that has not started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rmqcli.store.workers import Workers
from tests.store.marks import TASKS, leave, leave_the_first_at_last, marks
from tests.support import PATIENCE

ROOT = Path(__file__).parents[2]


def test_each_task_is_done_once_in_run_after_run(tmp_path: Path) -> None:
    told: list[int] = []
    with Workers(2) as workers:
        for run in range(20):
            found = workers.run(leave, marks(tmp_path / str(run)), told.append)
            assert [number for number, _ in found] == list(range(TASKS))
    assert sum(told) == 20 * sum(range(1, TASKS + 1))


def test_no_task_waits_behind_one_that_takes_long(tmp_path: Path) -> None:
    """The calling process takes tasks that the pool has handed out but not started."""
    with Workers(2) as workers:
        found = workers.run(leave_the_first_at_last, marks(tmp_path / "run"), lambda cost: None)
    assert [number for number, _ in found] == list(range(TASKS))


def test_an_error_of_a_task_is_raised(tmp_path: Path) -> None:
    taken = marks(tmp_path / "run")
    leave(taken[5])
    with Workers(2) as workers, pytest.raises(FileExistsError):
        workers.run(leave, taken, lambda cost: None)


KILLED = """
import sys
from pathlib import Path
from rmqcli.store.workers import WorkerKilled, Workers
from tests.store.marks import die_at_the_first, marks

with Workers(2) as workers:
    try:
        workers.run(die_at_the_first, marks(Path(sys.argv[1])), lambda cost: None)
    except WorkerKilled as error:
        print(error)
"""


def test_a_process_that_is_killed_ends_the_others(tmp_path: Path) -> None:
    """The test has its own process, which a time limit can end."""
    command = [sys.executable, "-c", KILLED, str(tmp_path / "run")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=2 * PATIENCE, cwd=ROOT
    )
    assert done.stdout == "another process of this command was killed: try again with --jobs 1\n"
