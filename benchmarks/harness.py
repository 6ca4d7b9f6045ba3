"""Measurements and the processes that they need. Servers listen on 127.0.0.1, port 0."""

from __future__ import annotations

import json
import mmap
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Measured:
    """A `value` in `unit`, its `ratio` to `against` of the same run, and the `target` to reach."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    against: str = ""
    target: str = ""

    def as_json(self) -> str:
        return json.dumps(asdict(self))


Benchmark = Callable[[], Iterator[Measured]]


@contextmanager
def process(*command: str, **kwargs: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a child process and end it with SIGTERM; its standard output is a pipe."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, **kwargs)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        child.wait(30)


@contextmanager
def cluster(store: Path | None = None, *options: str, **settings: object) -> Iterator[dict[str, Any]]:
    """Run `rmq up` with further options; yield its addresses and `pid`."""
    command = [sys.executable, "-m", "rmqcli", "up", "--json", "--port", "0", "--namesrv-port", "0"]
    command += ["--store", str(store)] if store else []
    command += options
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    with process(*command) as child:
        assert child.stdout is not None
        yield json.loads(child.stdout.readline()) | {"pid": child.pid}


def resident_mib(pid: int) -> float:
    """Anonymous resident memory of a process (RssAnon); the kernel can reclaim pages of mapped files."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, all threads and the kernel counted; it advances by 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def best_of(
    *actions: Callable[[], object], rounds: int = 5, before: Callable[[], object] = lambda: None
) -> list[float]:
    """Seconds of each action: best of alternating rounds, so that a disturbance affects all sides.

    `before` runs before each action and is not measured.
    """
    best = [float("inf")] * len(actions)
    for _ in range(rounds):
        for place, action in enumerate(actions):
            before()
            started = time.perf_counter()
            action()
            best[place] = min(best[place], time.perf_counter() - started)
    return best


def median_of(measure: Callable[[], float], runs: int = 3) -> float:
    return statistics.median(measure() for _ in range(runs))


def have_memory(size: int = 2 << 30) -> None:
    """Touches memory and frees it.

    A virtual machine gets a page from its host at the first write, which takes ten times as long as later
    ones and would be counted to whatever writes files first.
    """
    with mmap.mmap(-1, size) as pages:
        for position in range(0, size, mmap.PAGESIZE):
            pages[position] = 1
