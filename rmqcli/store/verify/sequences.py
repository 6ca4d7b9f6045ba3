"""Checks of the queue offsets that records state, against each other and against batch consume queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from codec.errors import CorruptionError
from codec.store.dispatch import has_place
from codec.store.record import scan_record
from rmqcli.store.read.batch_queues import BatchQueue, BatchUnit
from rmqcli.store.read.commit_log import CommitLogFiles, LogViews, walk_file
from rmqcli.store.read.files import mapped
from rmqcli.store.read.sequences import QueueKey, Run, Sequences, messages_in
from rmqcli.store.verify.findings import Finding


def sequences_of(log: CommitLogFiles) -> Sequences:
    """Return the sequences of a sound log."""
    found = Sequences()
    for file in log.files:
        with mapped(file) as data:
            end = max((place.position + place.size for place, _ in walk_file(file, data)), default=0)
            found.read(data, 0, end)
    return found


def misplaced(
    log: CommitLogFiles, found: Sequences, first_places: Mapping[QueueKey, int]
) -> Iterator[Finding]:
    """Yield the records that cannot be where they say: no queue can have them, or one has another there."""
    yield from _without_place(log, found)
    yield from _repeats(log, found, first_places)


def _repeats(
    log: CommitLogFiles, found: Sequences, first_places: Mapping[QueueKey, int]
) -> Iterator[Finding]:
    """Yield the records whose queue offset an earlier record of their queue has.

    A queue that begins again, at 0 or at the first entry of its consume queue (`first_places`), is one whose
    topic was deleted and created again.
    """
    for key, runs in sorted(found.queues.items()):
        for before, run in pairwise(runs):
            if run.first <= before.last and run.first != 0 and first_places.get(key) != run.begin:
                yield _finding(log, run, f"{key[0]} queue {key[1]} has queue offset {run.first} twice")


def _without_place(log: CommitLogFiles, found: Sequences) -> Iterator[Finding]:
    """Yield the records that no queue can have, the first of each run."""
    for key, runs in sorted(found.queues.items()):
        for run in runs:
            if not (has_place(*key, run.first) and has_place(*key, run.last)):
                text = f"there is no topic {key[0]!r} with a queue {key[1]} and queue offset {run.first}"
                yield _finding(log, run, text)


def _finding(log: CommitLogFiles, run: Run, text: str) -> Finding:
    file = next(file for file in reversed(log.files) if (file.base or 0) <= run.begin)
    return Finding(file.path, run.begin - (file.base or 0), text)


def check_batches(
    queues: list[BatchQueue], topics: frozenset[str], log: CommitLogFiles, found: Sequences, folder: Path
) -> Iterator[Finding]:
    """Yield what is wrong with the units of batch queues, and queues whose last records have none."""
    ends: dict[QueueKey, int] = {}
    with LogViews(log.files) as views:
        for queue in queues:
            for unit in queue.units():
                problem = _problem(queue, unit, views)
                if unit.base_offset < ends.get((queue.topic, queue.queue_id), 0):
                    problem = problem or f"its queue offset {unit.base_offset} is in the unit before it, too"
                ends[queue.topic, queue.queue_id] = unit.end
                if problem:
                    yield Finding(unit.file.path, unit.position, problem)
    for key, runs in sorted(found.queues.items()):
        if key[0] in topics and runs[-1].last >= ends.get(key, 0):
            text = f"{key[0]} queue {key[1]} is missing the units of its last records"
            yield Finding(folder / key[0] / str(key[1]), 0, text)


def _problem(queue: BatchQueue, unit: BatchUnit, views: LogViews) -> str | None:
    try:
        place = views.place(unit.commit_log_offset)
        if place is None:  # retention removed the record
            return None
        record = scan_record(*place)
    except CorruptionError as error:
        return f"its record at commit-log offset {unit.commit_log_offset}: {error}"
    stated = str(record.topic, "utf-8", "replace"), record.queue_id, record.queue_offset, messages_in(record)
    expected = queue.topic, queue.queue_id, unit.base_offset, unit.batch_size
    if stated != expected or record.total_size != unit.size:
        return f"its record at commit-log offset {unit.commit_log_offset} is another"
    return None
