"""Whether an export of a store has a row for every entry of the consume queues.

The queues are counted before the commit log is read, so that a broker that goes on writing does no harm. More rows than entries
are no fault: the consume queues of a killed broker lie behind its commit log, and a deleted topic has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from codec.errors import CorruptionError
from codec.names import LMQ_PREFIX
from codec.store.consume_queue import ENTRY, FILLER_SIZE
from rmqcli.export.from_store.lost_files import require_files
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.output.manifest import Manifest
from rmqcli.export.output.spans import QueueSpan
from rmqcli.render.output import warn
from rmqcli.store import CommitLog, Queue, queue_folders
from rmqcli.store.read.files import NamedFile, mapped

__all__ = ["count_entries", "has_topic", "require_rows", "warn_of_gap"]

Counts = Mapping[tuple[str, int], int]


def has_topic(store: Path, topic: str) -> bool:
    """Without consume queues (a commit log folder alone) nobody knows the topics before everything is read. One that never had a
    message has no queues yet.
    """
    from rmqcli.store.read.tables import topics

    queues = store / "consumequeue"
    return not queues.is_dir() or (queues / topic).is_dir() or topic in topics(store)


def count_entries(store: Path, rows: RowFilter) -> Counts:
    """Entries of each queue whose records are in the commit log and in `rows`. Nothing where it cannot be told: for ranges of
    store time, which entries do not have, for tags, of which they have a hash only, and without consume queues. For times
    CorruptionError when a file of the commit log is gone that may have had some of the records.
    """
    if not (store / "consumequeue").is_dir():
        return {}
    if rows.begin_time is not None or rows.end_time is not None:
        require_files(store, _queues(store, rows), rows)
        return {}
    if rows.tags:
        return {}
    low = max(CommitLog(store).files[0].base or 0, rows.begin_commit_log)
    found: dict[tuple[str, int], int] = {}
    for queue in _queues(store, rows):
        key = queue.topic or "", queue.queue_id or 0
        begin = max(rows.begin or 0, rows.done_of(*key))
        found[key] = sum(_count(file, begin, rows.end, low) for file in queue.files.files)
    return found


def _queues(store: Path, rows: RowFilter) -> Iterable[Queue]:
    try:
        queues = queue_folders(store / "consumequeue")
    except FileNotFoundError:  # a broker that never had a message
        return []
    return [
        queue
        for queue in queues
        if queue.topic is not None
        and not queue.topic.startswith(LMQ_PREFIX)  # its entries point at records of another topic
        and rows.takes_queue(queue.topic, queue.queue_id)
    ]


def _count(file: NamedFile, begin: int, end: int | None, low: int) -> int:
    import numpy as np

    first, count = (file.base or 0) // ENTRY.size, file.size // ENTRY.size
    begin, end = max(0, begin - first), count if end is None else max(0, min(count, end - first))
    if begin >= end:
        return 0
    with mapped(file) as data:
        entries = np.frombuffer(data, ENTRY.dtype(), end - begin, begin * ENTRY.size)
        sizes, places = entries["size"].astype(np.int64), entries["commit_log_offset"].astype(np.int64)
        del entries
    filler = (sizes == FILLER_SIZE) & (places == 0)
    return int(np.count_nonzero((sizes > 0) & (places >= low) & ~filler))


def warn_of_gap(store: Path, previous: Manifest | None, rows: RowFilter) -> None:
    """When retention took messages that came after the export that is resumed. Not seen for tags and times: what came last may have
    been left out by these.
    """
    low = CommitLog(store).files[0].base or 0
    if previous is None or (previous.commit_log_offset or 0) >= low or not (store / "consumequeue").is_dir():
        return
    if rows.tags or rows.begin_time is not None or rows.end_time is not None:
        return
    ends = {(span.topic, span.queue_id): span.end for span in previous.queues}
    gaps = [
        (queue, ends[key], first)
        for queue in _queues(store, rows)
        if (key := (queue.topic or "", queue.queue_id or 0)) in ends
        and (first := max(_first_there(queue, low), rows.begin or 0)) > ends[key]
    ]
    if gaps:
        queue, begin, end = gaps[0]
        others = f" (and of {len(gaps) - 1} more queues)" if len(gaps) > 1 else ""
        warn(
            f"{store}: messages {begin} to {end - 1} of queue {queue.queue_id} of topic {queue.topic}{others} came after the last "
            "export and are no longer there"
        )


def _first_there(queue: Queue, low: int) -> int:
    """The first queue offset whose record is at commit-log offset `low` or behind; else where the queue ends."""
    import numpy as np

    for file in queue.files.files:
        with mapped(file) as data:
            entries = np.frombuffer(data, ENTRY.dtype(), file.size // ENTRY.size)
            there = np.flatnonzero((entries["size"] > 0) & (entries["commit_log_offset"] >= low))
            del entries
        if len(there):
            return (file.base or 0) // ENTRY.size + int(there[0])
    return queue.files.bounds()[1]


def require_rows(store: Path, expected: Counts, exported: Iterable[QueueSpan]) -> None:
    """CorruptionError, naming the first queue, when there are fewer rows than entries."""
    rows = {(span.topic, span.queue_id): span.rows for span in exported}
    short = [(key, count) for key, count in expected.items() if rows.get(key, 0) < count]
    if short:
        (topic, queue), count = short[0]
        others = f" (and {len(short) - 1} more queues)" if len(short) > 1 else ""
        raise CorruptionError(
            f"{store}: queue {queue} of topic {topic} has {count} entries in its consume queue, but the commit log has "
            f"{rows.get((topic, queue), 0)} of its records{others}; --no-verify exports what is there"
        )
