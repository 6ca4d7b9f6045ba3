"""Files that a commit log lost: whether records of a range of store times may have been in them.

Consume queues do not say when a message was stored. What their entries say of a file that is gone lies between records that are
there, and store times rise along a log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codec.errors import CorruptionError
from codec.store.consume_queue import ENTRY, FILLER_SIZE
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.store import CommitLog, Queue
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.log_reader import LogReader

__all__ = ["require_files"]

_NO_END = 1 << 63


@dataclass(slots=True)
class _Hole:
    """Commit-log offsets [begin, end) of no file; `before` and `after` are the entries next to it, if there are any."""

    begin: int
    end: int
    lost: int = 0
    queue: Queue | None = None
    before: int | None = None
    after: int | None = None

    def look_at(self, queue: Queue, places: Any) -> None:
        """`places` ascend."""
        first, end = (int(number) for number in places.searchsorted((self.begin, min(self.end, _NO_END - 1))))
        if end > first:
            self.lost += end - first
            self.queue = self.queue or queue
        if first:
            self.before = max(self.before or 0, int(places[first - 1]))
        if end < len(places):
            self.after = min(self.after or _NO_END, int(places[end]))


def require_files(store: Path, queues: Iterable[Queue], rows: RowFilter) -> None:
    """CorruptionError when entries lead into a file that is gone, and their records may be in the times of `rows`."""
    holes = _holes(CommitLog(store).files)
    behind: list[Any] = []
    for queue in queues:
        for file in queue.files.files:
            places = _places(file)
            places = places[places >= rows.begin_commit_log]
            for hole in holes:
                hole.look_at(queue, places)
            behind.append(places[places >= holes[-1].begin])
    # A broker that goes on writing has made a file before the entries that lead into it.
    end = _holes(CommitLog(store).files)[-1].begin
    holes[-1].lost = sum(int((places >= end).sum()) for places in behind)
    with LogReader(store) as log:
        for hole in holes:
            if hole.lost and hole.queue is not None and _may_be_in(log, hole, rows):
                others = f", and {hole.lost - 1} others," if hole.lost > 1 else ""
                raise CorruptionError(
                    f"{store}: an entry of queue {hole.queue.queue_id} of topic {hole.queue.topic}{others} leads to commit-log "
                    f"offsets from {hole.begin} on, where there is no file; --no-verify exports what is there"
                )


def _holes(files: list[NamedFile]) -> list[_Hole]:
    """Between the files and behind the last. What is before the first, retention took."""
    ends = [(file.base or 0) + file.size for file in files]
    begins = [file.base or 0 for file in files[1:]]
    between = [_Hole(end, begin) for end, begin in zip(ends[:-1], begins, strict=True) if begin > end]
    return [*between, _Hole(ends[-1], _NO_END)]


def _places(file: NamedFile) -> Any:
    """Commit-log offsets of the entries of a queue's file, ascending."""
    import numpy as np

    with mapped(file) as data:
        entries = np.frombuffer(data, ENTRY.dtype(), file.size // ENTRY.size)
        sizes, places = entries["size"].astype(np.int64), entries["commit_log_offset"].astype(np.int64)
        del entries
    filler = (sizes == FILLER_SIZE) & (places == 0)
    return np.sort(places[(sizes > 0) & ~filler])


def _may_be_in(log: LogReader, hole: _Hole, rows: RowFilter) -> bool:
    before, after = (_time(log, place) for place in (hole.before, hole.after))
    starts_after = before is not None and rows.end_time is not None and before >= rows.end_time
    ends_before = after is not None and rows.begin_time is not None and after < rows.begin_time
    return not starts_after and not ends_before


def _time(log: LogReader, place: int | None) -> int | None:
    message = None if place is None else log.message(place)
    return None if message is None else message.store_timestamp
