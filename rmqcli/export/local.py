"""Export on this machine: the files of a store, or the queues of a topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from codec.errors import CorruptionError
from rmqcli.export.from_store.by_queues import QueuePlaces, divided, queue_places, scan, walked_instead
from rmqcli.export.from_store.parts import Part, cut_parts, parts_of
from rmqcli.export.from_store.queue_check import count_entries, require_rows, warn_of_gap
from rmqcli.export.from_store.queue_entries import UnsoundQueue
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic.batches import BATCH_MESSAGES, QueueRange
from rmqcli.export.from_topic.retrying import QueueEnd, read_queue
from rmqcli.export.output.folder import ExportFolder
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import FileEntry, Manifest, Origin
from rmqcli.export.output.parquet import Files, open_files
from rmqcli.export.output.spans import QueueKey, QueueSpan, merged
from rmqcli.export.output.summary import ExportSummary, summarize
from rmqcli.render.output import warn
from rmqcli.store import CommitLogFiles
from rmqcli.store.workers import WORTH_A_PROCESS, Workers

QUEUES_AT_ONCE = 4
"""Queues read at the same time; each holds one batch."""

_PARTS = 8
"""Parts of a log for several processes, none small and none larger than a file shall be."""

Progress = Callable[[int], None]

_EVERYTHING = Layout()


def _silent(count: int) -> None:
    return None


def store_origin(store: Path, rows: RowFilter) -> Origin:
    topics = ",".join(sorted(rows.topics)) or None
    return Origin(str(store.resolve()), topics, rows.queue_id, tuple(sorted(rows.tags)))


def export_store(
    store: Path,
    out: Path,
    rows: RowFilter,
    progress: Progress = _silent,
    *,
    layout: Layout = _EVERYTHING,
    resume: bool = False,
    workers: Workers | None = None,
    part_bytes: int | None = None,
) -> ExportSummary:
    """Exports the records of a store's commit log that `rows` accepts.

    `progress` receives bytes of commit log. `workers` are processes, each of which writes its own files, from
    parts of `part_bytes`. With `resume` only what the export under `out` is missing is added. Raises
    OutputExists when `out` is not empty, or cannot be resumed; CorruptionError at damage, and (with
    `rows.check_crc`) when a consume queue has more entries than there are records; FileNotFoundError without
    a commit log.
    """
    started = time.perf_counter()
    origin = store_origin(store, rows)
    CommitLogFiles(store)  # a missing store is reported before a folder is created
    with ExportFolder(out, origin, layout, resume=resume) as folder:
        warn_of_gap(store, folder.previous, rows)
        rows = rows.after(folder.previous)
        expected = count_entries(store, rows) if rows.check_crc else {}
        names = _write_store(
            store, rows, _Output(folder.temporary, origin.source, layout, part_bytes), progress, workers
        )
        entries = folder.measure(names)
        require_rows(store, expected, merged(span for file in entries for span in file.queues))
        manifest = commit_store(folder, entries, rows)
    return summarize(out, folder.previous, manifest, started)


class _Output(NamedTuple):
    folder: Path
    source: str
    layout: Layout
    part_bytes: int | None = None
    prefix: str = "part"

    def files(self, task: str = "") -> Files:
        return open_files(self.folder, self.prefix + task, self.source, self.layout)


def _write_store(
    store: Path, rows: RowFilter, output: _Output, progress: Progress, workers: Workers | None
) -> list[str]:
    """Writes the files and returns their names; reads by consume queues when these can be relied on."""
    parts = parts_of(store, rows)
    progress(sum(file.size for file in CommitLogFiles(store).files) - _size(parts))
    places = queue_places(store, rows)
    if places is not None:
        try:
            several = workers if rows.topics else None
            return _write(parts, rows, places, output._replace(prefix="queue"), progress, several)
        except UnsoundQueue as error:
            walked_instead(error)
    return _write(parts, rows, None, output, progress, workers)


def _write(
    parts: Sequence[Part],
    rows: RowFilter,
    places: QueuePlaces | None,
    output: _Output,
    progress: Progress,
    workers: Workers | None,
) -> list[str]:
    if workers is not None:
        return _write_parts(parts, rows, places, output, progress, workers)
    with output.files() as files:
        for part in parts:
            _write_part(part, rows, places, files, progress)
    return files.names


def _size(parts: Sequence[Part]) -> int:
    return sum(part.end - part.begin for part in parts)


def _write_part(
    part: Part, rows: RowFilter, places: QueuePlaces | None, files: Files, progress: Progress
) -> None:
    done = part.begin
    for batch in scan(part, rows, places, encoded=True):
        files.write(batch)
        reached = max(done, batch["commit_log_offset"][-1].as_py() - (part.base or 0))
        progress(reached - done)
        done = reached
    progress(part.end - done)


class _Task(NamedTuple):
    """One part, written by a free worker to its own files."""

    number: int
    part: Part
    rows: RowFilter
    places: QueuePlaces | None
    output: _Output

    @property
    def cost(self) -> int:
        return self.part.end - self.part.begin


def _write_parts(
    parts: Sequence[Part],
    rows: RowFilter,
    places: QueuePlaces | None,
    output: _Output,
    progress: Progress,
    workers: Workers,
) -> list[str]:
    size = _size(parts)
    part_bytes = output.part_bytes or max(size // _PARTS, WORTH_A_PROCESS)
    finer = cut_parts(parts, min(part_bytes, output.layout.file_bytes))
    tasks = [
        _Task(number, part, rows, own, output) for number, (part, own) in enumerate(divided(finer, places))
    ]
    progress(size - sum(task.cost for task in tasks))
    found = workers.run(_write_task, tasks, progress)
    errors = [one for one in found if isinstance(one, Exception)]
    if errors:
        raise next((error for error in errors if isinstance(error, UnsoundQueue)), errors[0])
    return [name for names in found if not isinstance(names, Exception) for name in names]


def _write_task(task: _Task) -> list[str] | CorruptionError | UnsoundQueue:
    """Returns the names of the task's files, or the error that kept it from writing them."""
    try:
        with task.output.files(f"-{task.number:05d}") as files:
            for batch in scan(task.part, task.rows, task.places, encoded=True):
                files.write(batch)
    except CorruptionError as error:
        return CorruptionError(str(error))  # a type that can be pickled
    except UnsoundQueue as error:
        return error
    return files.names


def commit_store(folder: ExportFolder, entries: list[FileEntry], rows: RowFilter) -> Manifest:
    """Commits the files. The next export continues behind the last record, unless an end of the range left
    out records before it.
    """
    before = folder.previous.files if folder.previous is not None else []
    ends = [rows.begin_commit_log, *(file.commit_log_end for file in (*before, *entries))]
    return folder.commit(entries, commit_log_offset=None if rows.has_end else max(ends))


def not_done(ranges: Sequence[QueueRange], previous: Manifest | None) -> list[QueueRange]:
    """Returns the ranges without what an earlier export has."""
    ends = {span.key: span.end for span in previous.queues} if previous else {}
    found: list[QueueRange] = []
    for wanted in ranges:
        before = ends.get(_key(wanted), wanted.begin)
        begin = max(wanted.begin, before)
        if before < wanted.begin and wanted.begin_time is None:
            warn(
                f"{wanted.queue}: messages {before} to {wanted.begin - 1} came after the last export and are no longer there, "
                "or not in the range"
            )
        if begin > wanted.end and wanted.end_time is None:
            warn(f"{wanted.queue}: ends at {wanted.end}, before {begin}, where the last export ended")
        found.append(wanted._replace(begin=begin, end=max(begin, wanted.end)))
    return found


def _key(wanted: QueueRange) -> QueueKey:
    return wanted.queue.topic, wanted.queue.broker_name, wanted.queue.queue_id


async def export_topic(
    client: Any,
    ranges: list[QueueRange],
    out: Path,
    progress: Progress = _silent,
    *,
    layout: Layout = _EVERYTHING,
    resume: bool = False,
    batch_messages: int = BATCH_MESSAGES,
) -> ExportSummary:
    """Exports queue ranges of a topic, pulled from brokers. `progress` receives messages.

    A queue that cannot be read after some tries is in `failed` of the summary, and its messages up to there
    are exported. Raises the first ClientError when no queue can be read.
    """
    import trio

    started = time.perf_counter()
    origin = Origin(None, ranges[0].queue.topic if ranges else "")
    limit, writing = trio.CapacityLimiter(QUEUES_AT_ONCE), trio.Lock()
    ends: list[QueueEnd] = []

    async def read(wanted: QueueRange, files: Files) -> None:
        async def take(batch: Any) -> None:
            # Compression takes long; meanwhile the other queues are read. Files accept one batch at a time.
            async with writing:
                await trio.to_thread.run_sync(files.write, batch)
            progress(batch.num_rows)

        async with limit:
            ends.append(await read_queue(client, wanted, take, batch_messages))

    with ExportFolder(out, origin, layout, resume=resume) as folder:
        with open_files(folder.temporary, "part", origin.source, layout) as files:
            async with trio.open_nursery() as nursery:
                for wanted in not_done(ranges, folder.previous):
                    nursery.start_soon(read, wanted, files)
        entries = folder.measure(files.names)
        manifest = commit_topic(folder, entries, ends)
    return summarize(out, folder.previous, manifest, started, failed_of(ends))


def failed_of(ends: Sequence[QueueEnd]) -> list[QueueEnd]:
    return sorted((end for end in ends if end.error is not None), key=lambda end: end.wanted.queue)


def commit_topic(folder: ExportFolder, entries: list[FileEntry], ends: Sequence[QueueEnd]) -> Manifest:
    """Commits the files; raises the first error when nothing was read of any queue."""
    failed = failed_of(ends)
    if failed and len(failed) == len(ends) and not entries and failed[0].error is not None:
        raise failed[0].error
    return folder.commit(
        entries, [QueueSpan(*_key(end.wanted), end.wanted.begin, end.reached, 0) for end in ends]
    )
