"""The search for missing entries: records before the start or after the end of their consume queue.

A topic that was deleted and created again begins at 0 once more, and its old records stay in the log: they
precede the last record of the queue, and so are not after its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from codec.core.dispatch import Dispatch, EntryRun
from codec.core.walk import Walk
from codec.errors import CorruptionError
from codec.properties import decode_properties
from codec.store.consume_queue import ENTRY
from codec.store.dispatch import DispatchedEntry, queue_entries
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, QueueLook
from rmqcli.store.read.files import mapped

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
    """Count the missing entries of the given queues. Damage is skipped, and so are records before the
    commit-log offset that `deleted` has for their topic.
    """
    found: Counter[MissingEntries] = Counter()
    for file in log.files:
        with mapped(file) as data:
            walk, dispatch = Walk(data, -1 if file.base is None else file.base), Dispatch()
            while not walk.is_over:
                try:
                    is_general = not dispatch.add_all(walk, _BLOCK_RECORDS)
                except CorruptionError:  # reported with the commit log
                    break
                finally:
                    for run in dispatch.take()[0]:
                        span = spans.get((run.topic, run.queue_id), _WITHOUT_END)
                        if span.first <= run.first and run.end <= span.end:
                            continue
                        _count(_entries_of(run), spans, deleted, found)
                if is_general:
                    record = walk.scan()
                    _count(queue_entries(record, decode_properties(record.properties)), spans, deleted, found)
    return found


def _entries_of(run: EntryRun) -> Iterator[DispatchedEntry]:
    for number, entry in enumerate(ENTRY.iter_unpack(run.entries), run.first):
        yield DispatchedEntry(run.topic, run.queue_id, number, *entry)


def _count(
    entries: Iterable[DispatchedEntry],
    spans: Spans,
    deleted: Mapping[str, int],
    found: Counter[MissingEntries],
) -> None:
    for entry in entries:
        if entry.commit_log_offset < deleted.get(entry.topic, 0):
            continue
        key = entry.topic, entry.queue_id
        span = spans.get(key, _WITHOUT_END)
        is_before = entry.queue_offset < span.first
        if is_before or (entry.queue_offset >= span.end and entry.commit_log_offset > span.last_place):
            found[MissingEntries(*key, is_before)] += 1
