"""A run of an export, independent of its source: the rows to add, the checks, the commit, the summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.errors import CorruptionError
from rmqcli.counts import many, messages_at
from rmqcli.export.from_store.queue_check import (
    StoreQueues,
    require_rows,
    require_same_lives,
    warn_of_gap,
)
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic.batches import QueueEnd, QueueRange
from rmqcli.export.output.folder import Destination
from rmqcli.export.output.manifest import (
    ASIDE,
    FileEntry,
    Manifest,
    Origin,
    QueueKey,
    QueueSpan,
    StoreEntry,
    merged,
)
from rmqcli.render.output import warn


class StoreRows(NamedTuple):
    """The rows wanted from a store folder; `asked`: the topics as the user named them, with patterns."""

    store: Path
    rows: RowFilter
    asked: str | None = None

    @property
    def path(self) -> str:
        return str(self.store.resolve())


class DamagedStore(NamedTuple):
    """A store folder from which nothing was exported, and the damage."""

    store: Path
    error: CorruptionError


class ExportSummary(NamedTuple):
    """The files that a run added: `size` in bytes, `seconds` of wall time.

    `failed` are unfinished queues, `damaged` stores that were left out, and `lost` lists the messages that
    were removed before they could be exported. The bodies of `undecoded` rows could not be decoded, nor those
    of `quarantined` ones, which are not among `rows`.
    """

    out: str
    files: int
    rows: int
    size: int
    seconds: float
    failed: tuple[QueueEnd, ...] = ()
    damaged: tuple[DamagedStore, ...] = ()
    lost: tuple[str, ...] = ()
    undecoded: int = 0
    quarantined: int = 0


def _summary(
    into: Destination, added: Sequence[FileEntry], written: Sequence[FileEntry], started: float
) -> ExportSummary:
    return ExportSummary(
        into.shown,
        len(added),
        sum(file.rows for file in added),
        sum(file.bytes for file in added),
        time.perf_counter() - started,
        undecoded=sum(file.undecoded for file in added),
        quarantined=sum(file.rows for file in written if file.path.startswith(ASIDE)),
    )


def stores_origin(wanted: Sequence[StoreRows]) -> Origin:
    """Return the origin of rows of store folders. Topics, queue and tags are the same for all of them."""
    stores = tuple(sorted((StoreEntry(one.path, one.rows.broker_name) for one in wanted), key=str))
    rows = wanted[0].rows
    topics = wanted[0].asked or ",".join(sorted(rows.topics)) or None
    return Origin(stores, topics, rows.queue_id, tuple(sorted(rows.tags)))


def run_stores_export(
    wanted: Sequence[StoreRows], into: Destination, write: Callable[[int, StoreQueues], Iterable[str]]
) -> ExportSummary:
    """Export with `write`, which writes files of the missing rows of one store and returns their names.

    `write` receives the number of the store, and its queues with the rows. A damaged store is left out if
    there are others. If there are none, raises its CorruptionError; with `check_crc`, a consume queue with
    more entries than there are records also counts as damage.
    """
    started = time.perf_counter()
    entries: list[FileEntry] = []
    ends: dict[str, int | None] = {}
    damaged: list[DamagedStore] = []
    lost: list[str] = []
    for number, one in enumerate(wanted):
        try:
            queues = StoreQueues(one.store, one.rows.after(into.previous, one.path))
            lost += warn_of_gap(queues, into.previous)
            added, ends[one.path] = _add_store(queues, into, partial(write, number))
            entries += added
        except CorruptionError as error:
            damaged.append(DamagedStore(one.store, error))
    if len(damaged) == len(wanted):
        raise damaged[0].error
    summary = _summary(into, into.commit(entries, ends=ends), entries, started)
    return summary._replace(damaged=tuple(damaged), lost=tuple(lost))


def _add_store(
    queues: StoreQueues, into: Destination, write: Callable[[StoreQueues], Iterable[str]]
) -> tuple[list[FileEntry], int | None]:
    """Return the files of the rows of a store, and the commit-log offset where the next export continues."""
    rows = queues.rows
    require_same_lives(queues, into.previous)
    counted = queues.counts() if rows.check_crc else {}
    expected = {} if into.layout.transform.sample else counted
    entries = into.measure(write(queues))
    left_out = require_rows(queues, expected, merged(span for file in entries for span in file.queues))
    if left_out:
        warn(f"{queues.store}: {many(left_out, 'message')} that stand for lost ones are left out")
    if rows.has_end:  # records before the last one were left out
        return entries, None
    return entries, max([_continued(into.previous, rows), *(file.commit_log_end for file in entries)])


def _continued(previous: Manifest | None, rows: RowFilter) -> int:
    """Return the commit-log offset at which an earlier export of a store ended, or the beginning of this one
    if that is later.
    """
    if previous is None:
        return rows.begin_commit_log
    own = (file for file in previous.files if len(previous.stores) == 1 or _is_of(file, rows))
    return max([rows.begin_commit_log, *(file.commit_log_end for file in own)])


def _is_of(file: FileEntry, rows: RowFilter) -> bool:
    return any(span.broker_name == rows.broker_name for span in file.queues)


def topic_origin(ranges: Sequence[QueueRange], asked: str | None = None) -> Origin:
    """Return the origin of rows of a cluster; `asked`: the topics as the user named them, with patterns."""
    return Origin((), asked or ",".join(sorted({wanted.queue.topic for wanted in ranges})))


class Rest(NamedTuple):
    """Ranges without the messages of an earlier export, and the warnings about missing messages in
    between.
    """

    ranges: list[QueueRange]
    lost: list[str]


def not_done(ranges: Sequence[QueueRange], previous: Manifest | None) -> Rest:
    ends = {span.key: span.end for span in previous.queues} if previous else {}
    found = Rest([], [])
    for wanted in ranges:
        before = ends.get(_key(wanted), wanted.begin)
        begin = max(wanted.begin, before)
        if before < wanted.begin and wanted.begin_time is None:
            found.lost.append(
                f"{wanted.queue}: {messages_at(before, wanted.begin)} arrived after the last export; the "
                "queue or the range begins after them"
            )
            warn(found.lost[-1])
        if begin > wanted.end and wanted.end_time is None:
            warn(f"{wanted.queue}: ends at {wanted.end}, before {begin}, where the last export ended")
        found.ranges.append(wanted._replace(begin=begin, end=max(begin, wanted.end)))
    return found


def _key(wanted: QueueRange) -> QueueKey:
    return wanted.queue.topic, wanted.queue.broker_name, wanted.queue.queue_id


def commit_topic(
    into: Destination,
    names: Iterable[str],
    ends: Sequence[QueueEnd],
    started: float,
    lost: Sequence[str] = (),
) -> ExportSummary:
    """Commit the files of these names. Raises the first ClientError if nothing was read from any queue."""
    entries = into.measure(names)
    failed = sorted((end for end in ends if end.error is not None), key=lambda end: end.wanted.queue)
    if failed and len(failed) == len(ends) and not entries and failed[0].error is not None:
        raise failed[0].error
    reached = [QueueSpan(*_key(end.wanted), end.wanted.begin, end.reached, 0) for end in ends]
    summary = _summary(into, into.commit(entries, reached), entries, started)
    removed = (text for end in ends for text in end.lost)
    return summary._replace(failed=tuple(failed), lost=(*lost, *removed))
