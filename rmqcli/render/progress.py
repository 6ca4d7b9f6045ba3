"""A progress bar on standard error, only when that is a terminal; otherwise nothing and no import of rich."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]

_PAUSE = 0.1
"""Seconds."""


@contextmanager
def progress(
    what: str, total: int | None = None, *, quiet: bool = False, sizes: bool = False
) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how many more are done. `total` None: unknown. `sizes`: what is counted is bytes."""
    if quiet or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *((DownloadColumn(), TransferSpeedColumn()) if sizes else (MofNCompleteColumn(),)),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        gathered = _Gathered(lambda count: bar.advance(task, count))
        yield gathered
        gathered.flush()


class _Gathered:
    """Tells what adds up a few times a second: a bar that is told of every record costs more than the record."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._count = 0
        self._told = 0.0
        self._lock = threading.Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._count += count
            if time.monotonic() - self._told >= _PAUSE:
                self.flush()

    def flush(self) -> None:
        self._tell(self._count)
        self._count, self._told = 0, time.monotonic()
