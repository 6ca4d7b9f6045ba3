"""Progress of a Spark job: what is reported, also when no task starts, and on the one session of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from rmqcli.export import RowFilter, export_store_on_spark
from rmqcli.export.from_store.parts import scan_part
from rmqcli.export.spark.job import PATIENCE, Parts, ReadParts, Watch
from tests.support import JavaStore

SECONDS = 120


def watched(*looks: tuple[int, int], tasks: int = 9) -> tuple[list[int], Watch]:
    """Returns a watch that sees (running, done) in turn, and what it reported."""
    told: list[int] = []
    seen = iter(looks)
    return told, Watch(tasks, lambda: next(seen), told.append)


def test_what_came_since_the_last_look() -> None:
    told, watch = watched((2, 0), (2, 1), (2, 1), (1, 4))
    for _ in range(4):
        watch.poll()
    assert told == [1, 3]
    watch.end()
    assert told == [1, 3, 5]


def test_no_task_gets_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    _, watch = watched(*[(0, 0)] * 2 * PATIENCE)
    for _ in range(PATIENCE - 1):
        watch.poll()
    assert capsys.readouterr().err == ""
    watch.poll()
    assert capsys.readouterr().err.startswith("rmq: no task has started yet: has the Spark master workers")
    for _ in range(PATIENCE):
        watch.poll()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("look", [(1, 0), (0, 1)])
def test_tasks_that_run_take_their_time(look: tuple[int, int], capsys: pytest.CaptureFixture[str]) -> None:
    _, watch = watched(*[look] * (PATIENCE + 1))
    for _ in range(PATIENCE + 1):
        watch.poll()
    assert capsys.readouterr().err == ""


def reading_when(mark: Path, last: Path) -> ReadParts:
    """Lets the last task, with the end of the last file, read once the mark exists."""

    def read(rows: RowFilter, parts: Parts, task: int) -> Generator[Any, None, None]:
        end = time.monotonic() + SECONDS
        part = parts[0].part
        is_last = part.path == str(last) and part.end == part.size
        while is_last and not mark.exists():
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.02)
        yield from scan_part(part, rows)

    return read


def test_it_is_told_while_the_job_runs(spark: object, store_clean: JavaStore, tmp_path: Path) -> None:
    mark, told = tmp_path / "mark", []

    @contextmanager
    def progress(tasks: int) -> Iterator[Callable[[int], None]]:
        told.append(tasks)
        yield partial(advance, tasks)

    def advance(tasks: int, count: int) -> None:
        told.append(count)
        if sum(told[1:]) == tasks - 1:
            mark.touch()

    export_store_on_spark(
        store_clean.root,
        tmp_path / "out",
        RowFilter(),
        progress,
        part_bytes=600_000,
        read=reading_when(mark, store_clean.commit_logs[-1]),
    )
    assert told[0] == sum(told[1:])
    assert len(told) > 2
    context = SparkContext._active_spark_context
    assert context is not None
    assert context.getLocalProperty("spark.jobGroup.id") is None
