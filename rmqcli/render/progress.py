"""A progress bar on standard error if that is a terminal; otherwise nothing, and rich is not imported."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rmqcli.render.text import one_line, short_number

_PAUSE = 0.1  # seconds
QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)
"""True while a command runs with --quiet: no bars, no notes."""


@contextmanager
def progress(
    what: str, total: int | None = None, *, quiet: bool = False, sizes: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with a number of completed items. `total` is None if unknown. `sizes`: the
    items are bytes.

    The bar shows counts, the rate, and with a total the remaining time.
    """
    if quiet or QUIET.get() or not sys.stderr.isatty():
        yield lambda count: None
        return
    with _terminal() as is_free:
        if not is_free:
            yield lambda count: None
            return
        with _bar(what, total, sizes=sizes) as advance:
            yield advance


@contextmanager
def _terminal() -> Iterator[bool]:
    """Claim the terminal of standard error; yield False if another process shows its bar there (`pull |
    send`).
    """
    try:
        import fcntl

        # A separate descriptor: the processes of a pipe share that of standard error, and so its locks.
        own = os.open(os.ttyname(sys.stderr.fileno()), os.O_RDONLY | os.O_NOCTTY)
    except (ImportError, OSError, ValueError):  # no such locks, or no file
        yield True
        return
    try:
        is_free = True
        try:
            fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            is_free = False
        yield is_free
    finally:
        os.close(own)


@contextmanager
def _bar(what: str, total: int | None, *, sizes: bool) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Items per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{short_number(speed)}/s")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *((DownloadColumn(), TransferSpeedColumn()) if sizes else (MofNCompleteColumn(), Rate())),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(one_line(what), total=total)
        gathered = _Throttled(lambda count: bar.advance(task, count))
        yield gathered
        gathered.flush()


class _Throttled:
    """Accumulates counts and passes them on a few times per second: updating the bar costs more than reading
    a record.
    """

    def __init__(self, update: Callable[[int], None]) -> None:
        self._update = update
        self._count = 0
        self._updated = 0.0
        self._lock = threading.Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._count += count
            if time.monotonic() - self._updated >= _PAUSE:
                self.flush()

    def flush(self) -> None:
        self._update(self._count)
        self._count, self._updated = 0, time.monotonic()
