"""A progress bar on standard error, only when that is a terminal; otherwise nothing and no import of rich."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]


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
        yield lambda count: bar.advance(task, count)
