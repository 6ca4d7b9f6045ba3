"""A Spark application for a real cluster, run as `python -m tests.export.spark.attacked MASTER STORE OUT
MARKS`: it exports a store while its tasks are attacked, each attack once, as files in MARKS show.

* task 0 is slow, until the export is over and its files are gone; then it wants to write.
* task 1 raises.
* task 2 kills its executor.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

from rmqcli.export import RowFilter, export_store_on_spark
from rmqcli.export.from_store.parts import scan_part
from rmqcli.export.output.manifest import books_of
from rmqcli.export.spark.job import Parts, ReadParts
from rmqcli.export.spark.session import spark_session
from tests.export.spark.cluster import SMALL

CONF = {
    **SMALL,
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[3]),
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    # The slow attempt must outlive its copy.
    "spark.python.task.killTimeout": "1h",
}
SECONDS = 120
"""After this time something is wrong."""


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def no_temporary(out: Path) -> bool:
    return (out / "_SUCCESS").exists() and not any(books_of(out).glob("temporary-*"))


def kill_executor() -> None:
    pid = os.getpid()
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)
    time.sleep(SECONDS)  # what ends an executor ends its Python, too


def fail() -> None:
    raise ValueError("in the middle of a task")


def attacked(out: Path, marks: Path) -> ReadParts:
    attacks: list[Callable[[], object]] = [partial(wait_for, partial(no_temporary, out)), fail, kill_executor]

    def read(rows: RowFilter, parts: Parts, task: int) -> Generator[Any, None, None]:
        mark = marks / f"task-{task}"
        is_first = task < len(attacks) and not mark.exists()
        mark.touch()
        for batch in scan_part(parts[0].part, rows):
            yield batch.slice(0, batch.num_rows // 2)
            if is_first:
                attacks[task]()
            yield batch.slice(batch.num_rows // 2)
        if is_first:
            mark.with_name("slow-one-read-on").touch()

    return read


def main(master: str, store: Path, out: Path, marks: Path) -> None:
    with spark_session(master, CONF) as spark:
        export_store_on_spark(store, out, RowFilter(), part_bytes=400_000, read=attacked(out, marks))
        wait_for((marks / "slow-one-read-on").exists)
        tracker = spark.sparkContext.statusTracker()
        wait_for(lambda: all(not info.numRunningTasks for info in tracker.getExecutorInfos()))


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
