"""The processes of an export of store folders, and its progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqcli.export import StoreRows
    from rmqcli.store.workers import Workers

_MIN_PARALLEL_BYTES = 1 << 29  # size of the commit log from which several processes are faster than one


@contextmanager
def working(
    stores: Sequence[StoreRows], jobs: int | None
) -> Iterator[tuple[Callable[[int], None], Workers | None]]:
    """Yield a function to call with bytes of commit log, and workers; None for one process."""
    from rmqcli.render.progress import progress
    from rmqcli.store import CommitLogFiles
    from rmqcli.store.workers import Workers, usable_cores

    size = sum(file.size for one in stores for file in CommitLogFiles(one.store).files)
    # One process keeps two cores busy: it scans while one of its threads compresses.
    jobs = jobs or (max(usable_cores() // 2, 1) if size >= _MIN_PARALLEL_BYTES else 1)
    with Workers(jobs) as workers, progress("export", size, sizes=True) as advance:
        yield advance, workers if jobs > 1 else None
