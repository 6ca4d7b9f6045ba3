"""Parts of queue files as tasks of the check of consume queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from codec.store.consume_queue import ENTRY
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.read.consume_queue import Queue
from rmqcli.store.read.files import NamedFile

PART_ENTRIES = 1 << 17
_TASK_BYTES = PART_ENTRIES * ENTRY.size
_TASK_PARTS = 512
"""Parts, of as many queues, that are checked with one mapping of the log."""


class QueuePart(NamedTuple):
    """Entries [begin, end) of a queue file; `last` is the commit-log offset before them."""

    queue: Queue
    file: NamedFile
    begin: int
    end: int
    last: int

    @property
    def size(self) -> int:
        return (self.end - self.begin) * ENTRY.size


class QueueParts(NamedTuple):
    """Parts of queues of one commit log, whose files are mapped once for all of them."""

    parts: list[QueuePart]
    log: CommitLogFiles | None
    check_crc: bool

    @property
    def cost(self) -> int:
        return sum(part.size for part in self.parts)


def shared_out(parts: list[QueuePart]) -> Iterator[list[QueuePart]]:
    """Yield tasks of several small parts."""
    some: list[QueuePart] = []
    size = 0
    for part in parts:
        if size + part.size > _TASK_BYTES or len(some) == _TASK_PARTS:
            yield some
            some, size = [], 0
        some.append(part)
        size += part.size
    if some:
        yield some
