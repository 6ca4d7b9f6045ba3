"""Batch consume queues of 5.x: topics that have them, and their units."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from codec.store.batch_queue import BATCH, FOLDER, QUEUE_TYPE, UNIT
from rmqcli.store.read.files import DamagedFile, NamedFile, mapped, offset_files
from rmqcli.store.read.tables import topics


class BatchUnit(NamedTuple):
    """A unit at byte `position` of `file`, which stands for queue offsets [base_offset, end)."""

    file: NamedFile
    position: int
    commit_log_offset: int
    size: int
    store_timestamp: int
    base_offset: int
    batch_size: int

    @property
    def end(self) -> int:
        return self.base_offset + self.batch_size


class BatchQueue(NamedTuple):
    topic: str
    queue_id: int
    files: list[NamedFile]

    def units(self) -> Iterator[BatchUnit]:
        """Yield the units; one of size 0 ends the queue."""
        for file in self.files:
            with mapped(file) as data:
                for position in range(0, file.size - UNIT.size + 1, UNIT.size):
                    offset, size, _, stored, base, count, *_ = UNIT.unpack_from(data, position)
                    if size == 0:
                        return
                    yield BatchUnit(file, position, offset, size, stored, base, count)


def batch_topics(store: Path) -> frozenset[str]:
    """Return the topics that have batch queues, or whose attributes ask for them."""
    try:
        known = {
            name for name, one in topics(store).items() if (one.attributes or {}).get(QUEUE_TYPE) == BATCH
        }
    except DamagedFile:
        known = set()
    return frozenset(known | {queue.topic for queue in batch_queues(store)})


def batch_queues(store: Path) -> list[BatchQueue]:
    found = []
    for folder in sorted((store / FOLDER).glob("*/[0-9]*")):
        try:
            found.append(BatchQueue(folder.parent.name, int(folder.name), offset_files(folder)))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
    return found
