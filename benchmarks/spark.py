"""The export as a Spark job: the gain of a second core, and the ratio to a plain `df.write.parquet`.

Each session is a process of its own; both alternate, and measuring begins when both are warm.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.export import TOPICS, write_store
from benchmarks.harness import ROOT, Measured, have_memory, process
from benchmarks.scan import write_log

LOG_BYTES = 1024 * 1024 * 1024
BODY_SIZE = 1024
ROUNDS = 6


def spark() -> Iterator[Measured]:
    """Export 1 KB bodies that cannot be compressed, in one commit-log file.

    The files are in memory where there is room: a second core does not make a disk faster.
    """
    name = "Spark export, 1 KB bodies, "
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        store = Path(folder) / "store"
        write_log(store, BODY_SIZE, LOG_BYTES)
        with _session("local[1]", store) as first, _session("local[2]", store) as second:
            have_memory()
            first(), second()  # a session is warm after one export
            count = first()[1]
            # Timed by the sessions' own clocks: after each export a session deletes its output, file by file.
            # The second export of a turn counts: a session that waited for the other is slow at first.
            rounds = [[session()[0] for session in (first, first, second, second)] for _ in range(ROUNDS)]
            _, one, _, two = map(min, zip(*rounds, strict=True))
        yield Measured(f"{name}local[1]", count / one, "msg/s")
        yield Measured(f"{name}local[2]", count / two, "msg/s", one / two, "local[1]", "1.7")
        said = subprocess.check_output(_command("plain", "local[2]", store), cwd=ROOT)
    yield from _topics()
    arrow, rows, plain_count = json.loads(said)
    assert count == plain_count
    for source, seconds, target in (("a row-based source", rows, "3"), ("the format rocketmq", arrow, "")):
        against = f"df.write.parquet of {source}"
        yield Measured(f"{name}local[2]", count / two, "msg/s", seconds / two, against, target)


def _memory() -> str | None:
    """Return a folder in memory with room for the store and two exports, if there is one."""
    folder = Path("/dev/shm")
    return str(folder) if folder.is_dir() and shutil.disk_usage(folder).free > 6 * LOG_BYTES else None


def _topics() -> Iterator[Measured]:
    """Export one of twenty topics by its consume queues."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        write_store(store, LOG_BYTES)
        said = subprocess.check_output(_command("topics", "local[2]", store), cwd=ROOT)
    export, one, load, subscribed = json.loads(said)
    name = f"1 KB bodies, local[2], one topic of {TOPICS}: "
    yield Measured(f"{name}export --spark", 1 / one, "1/s", export / one, "all topics")
    yield Measured(f"{name}load(path)", 1 / subscribed, "1/s", load / subscribed, "all topics")


def _command(way: str, master: str, store: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.spark_session", way, master, str(store)]


@contextmanager
def _session(master: str, store: Path) -> Iterator[Callable[[], tuple[float, int]]]:
    """Return a function that makes the session export once and return seconds and rows."""
    with process(*_command("export", master, store), stdin=subprocess.PIPE) as child:
        stdin, stdout = child.stdin, child.stdout
        assert stdin is not None
        assert stdout is not None

        def export() -> tuple[float, int]:
            print(file=stdin, flush=True)
            seconds, rows = json.loads(stdout.readline())
            return seconds, rows

        yield export
        stdin.close()
        child.wait(30)
