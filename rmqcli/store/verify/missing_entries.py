"""The search for missing entries: records before the start or after the end of their consume queue.

A topic that was deleted and created again begins at 0 once more, and its old records stay in the log: they
precede the last record of the queue, and so are not after its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from codec.errors import CorruptionError
from codec.properties import decode_properties
from codec.store.dispatch import queue_entries
from rmqcli.store.read.commit_log import CommitLogFiles, walk_file
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, QueueLook
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.vectorised import is_vectorised

_BLOCK_RECORDS = 4096


class Span(NamedTuple):
    """Queue offsets [first, end), and the commit-log offset of the last entry."""

    first: int
    end: int
    last_place: int


NOTHING = Span(0, 0, -1)
"""A queue without entries."""
_WITHOUT_END = Span(-(1 << 63), (1 << 63) - 1, -1)
"""A queue that is not searched."""


class MissingEntries(NamedTuple):
    """A queue with missing entries: before its first, or after its last."""

    topic: str
    queue_id: int
    is_before: bool

    @property
    def queue(self) -> tuple[str, int]:
        return self[:2]


Spans = Mapping[tuple[str, int], Span]


def span_of(files: ConsumeQueueFiles) -> Span:
    with QueueLook(files.files) as look:
        first, end = look.bounds()
        last = look.entry(end - 1) if end > first else None
    return NOTHING if last is None else Span(first, end, last.commit_log_offset)


def find_missing_entries(
    log: CommitLogFiles, spans: Spans, deleted: Mapping[str, int]
) -> Counter[MissingEntries]:
    """Counts the missing entries of the given queues. Damage is skipped, and so are records before the
    commit-log offset that `deleted` has for their topic.
    """
    found: Counter[MissingEntries] = Counter()
    for file in log.files:
        with mapped(file) as data:
            position = 0
            while True:
                position = _skip_complete(data, position, spans)
                after = _look(file, data, position, spans, deleted, found)
                if after == position:
                    break
                position = after
    return found


def _skip_complete(data: memoryview, position: int, spans: Spans) -> int:
    if not is_vectorised():
        return position
    from codec.scan.checks import skip_records_within

    return skip_records_within(data, position, spans)


def _look(
    file: NamedFile,
    data: memoryview,
    position: int,
    spans: Spans,
    deleted: Mapping[str, int],
    found: Counter[MissingEntries],
) -> int:
    """Counts in a block of records; returns the byte after it, `position` if no record follows."""
    try:
        for number, (place, record) in enumerate(walk_file(file, data, position)):
            if number == _BLOCK_RECORDS:
                return place.position
            position = place.position + place.size
            for entry in queue_entries(record, decode_properties(record.properties)):
                if place.offset < deleted.get(entry.topic, 0):
                    continue
                key = entry.topic, entry.queue_id
                span = spans.get(key, _WITHOUT_END)
                is_before = entry.queue_offset < span.first
                if is_before or (entry.queue_offset >= span.end and place.offset > span.last_place):
                    found[MissingEntries(*key, is_before)] += 1
    except CorruptionError:
        return position  # reported with the commit log
    return position
