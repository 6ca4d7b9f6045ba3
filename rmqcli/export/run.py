"""A run of an export, whatever reads its rows: the rows to add, the checks, the commit, the summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rmqcli.export.from_store.queue_check import count_entries, require_rows, warn_of_gap
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic.batches import QueueRange
from rmqcli.export.from_topic.retrying import QueueEnd
from rmqcli.export.output.folder import ExportFolder
from rmqcli.export.output.manifest import FileEntry, Manifest, Origin
from rmqcli.export.output.spans import QueueKey, QueueSpan, merged
from rmqcli.render.output import warn
from rmqcli.words import many, messages_at


class ExportSummary(NamedTuple):
    """The files that a run added: `size` in bytes, `seconds` of wall time; `failed` are unfinished queues."""

    out: Path
    files: int
    rows: int
    size: int
    seconds: float
    failed: tuple[QueueEnd, ...] = ()


def _summary(
    out: Path, added: Sequence[FileEntry], started: float, failed: Sequence[QueueEnd] = ()
) -> ExportSummary:
    rows, size = sum(file.rows for file in added), sum(file.bytes for file in added)
    return ExportSummary(out, len(added), rows, size, time.perf_counter() - started, tuple(failed))


def store_origin(store: Path, rows: RowFilter) -> Origin:
    topics = ",".join(sorted(rows.topics)) or None
    return Origin(str(store.resolve()), topics, rows.queue_id, tuple(sorted(rows.tags)))


def run_store_export(
    store: Path, out: Path, rows: RowFilter, folder: ExportFolder, write: Callable[[RowFilter], Iterable[str]]
) -> ExportSummary:
    """Exports with `write`, which writes files of the rows that are not there yet, and returns their names.

    Raises CorruptionError, with `rows.check_crc`, when a consume queue has more entries than records.
    """
    started = time.perf_counter()
    warn_of_gap(store, folder.previous, rows)
    rows = rows.after(folder.previous)
    expected = count_entries(store, rows) if rows.check_crc else {}
    entries = folder.measure(write(rows))
    left_out = require_rows(store, rows, expected, merged(span for file in entries for span in file.queues))
    if left_out:
        warn(f"{store}: {many(left_out, 'message')} that stand for lost ones are left out")
    before = folder.previous.files if folder.previous is not None else []
    ends = [rows.begin_commit_log, *(file.commit_log_end for file in (*before, *entries))]
    # The next run continues after the last record, unless an end of the range left out records before it.
    added = folder.commit(entries, commit_log_offset=None if rows.has_end else max(ends))
    return _summary(out, added, started)


def topic_origin(ranges: Sequence[QueueRange]) -> Origin:
    return Origin(None, ranges[0].queue.topic if ranges else "")


def not_done(ranges: Sequence[QueueRange], previous: Manifest | None) -> list[QueueRange]:
    """Returns the ranges without what an earlier export has."""
    ends = {span.key: span.end for span in previous.queues} if previous else {}
    found: list[QueueRange] = []
    for wanted in ranges:
        before = ends.get(_key(wanted), wanted.begin)
        begin = max(wanted.begin, before)
        if before < wanted.begin and wanted.begin_time is None:
            warn(
                f"{wanted.queue}: {messages_at(before, wanted.begin)} arrived after the last export; the "
                "queue or the range begins behind"
            )
        if begin > wanted.end and wanted.end_time is None:
            warn(f"{wanted.queue}: ends at {wanted.end}, before {begin}, where the last export ended")
        found.append(wanted._replace(begin=begin, end=max(begin, wanted.end)))
    return found


def _key(wanted: QueueRange) -> QueueKey:
    return wanted.queue.topic, wanted.queue.broker_name, wanted.queue.queue_id


def commit_topic(
    out: Path, folder: ExportFolder, names: Iterable[str], ends: Sequence[QueueEnd], started: float
) -> ExportSummary:
    """Commits the files of these names; raises the first ClientError if nothing was read of any queue."""
    entries = folder.measure(names)
    failed = sorted((end for end in ends if end.error is not None), key=lambda end: end.wanted.queue)
    if failed and len(failed) == len(ends) and not entries and failed[0].error is not None:
        raise failed[0].error
    reached = [QueueSpan(*_key(end.wanted), end.wanted.begin, end.reached, 0) for end in ends]
    return _summary(out, folder.commit(entries, reached), started, failed)
