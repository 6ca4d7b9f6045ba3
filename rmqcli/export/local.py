"""The export on this machine: file after file of a store, or a topic's queues by pull."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from codec.errors import CorruptionError
from rmqcli.export.by_queues import QueuePlaces, UnsoundQueue, queue_places, scan_by_queues
from rmqcli.export.folder import ExportFolder
from rmqcli.export.layout import Layout
from rmqcli.export.live import QueueRange
from rmqcli.export.manifest import FileEntry, Manifest, Origin
from rmqcli.export.parquet import Files, open_files
from rmqcli.export.parts import Part, cut_parts, parts_of, scan_part
from rmqcli.export.queue_check import count_entries, require_rows
from rmqcli.export.retrying import QueueEnd, read_queue
from rmqcli.export.rows import RowFilter
from rmqcli.export.spans import QueueKey, QueueSpan, merged
from rmqcli.export.summary import ExportSummary, summarize
from rmqcli.running import warn
from rmqcli.store import CommitLog
from rmqcli.store.workers import WORTH_A_PROCESS, Workers

__all__ = [
    "commit_store",
    "commit_topic",
    "export_store",
    "export_topic",
    "failed_of",
    "not_done",
    "store_origin",
]

QUEUES_AT_ONCE = 4
"""So many queues are read at the same time; each holds one batch."""

_PARTS = 8
"""A log is cut into so many parts for several processes, none of them small and none larger than a file shall be."""

Progress = Callable[[int], None]

_EVERYTHING = Layout()


def _silent(count: int) -> None:
    return None


def store_origin(store: Path, rows: RowFilter) -> Origin:
    """What the manifest says of a store."""
    return Origin(str(store.resolve()), rows.topic, rows.queue_id, tuple(sorted(rows.tags)))


def export_store(
    store: Path,
    out: Path,
    rows: RowFilter,
    progress: Progress = _silent,
    *,
    layout: Layout = _EVERYTHING,
    resume: bool = False,
    workers: Workers | None = None,
) -> ExportSummary:
    """Every record of a store's commit log that `rows` takes. `progress` is told bytes of commit log as they are done.
    `workers`: processes, each of which writes files of its own.

    `resume`: what the export under `out` does not have yet. OutputExists when `out` is not empty, or cannot be resumed;
    CorruptionError at damage, and (with `rows.check_crc`) when a consume queue has more entries than there are records;
    FileNotFoundError when there is no commit log.
    """
    started = time.perf_counter()
    origin = store_origin(store, rows)
    CommitLog(store)  # a store that is not there is told before a folder is made
    with ExportFolder(out, origin, layout, resume=resume) as folder:
        rows = rows.after(folder.previous)
        expected = count_entries(store, rows) if rows.check_crc else {}
        names = _write_store(store, rows, _Output(folder.temporary, origin.source, layout), progress, workers)
        entries = folder.measure(names)
        require_rows(store, expected, merged(span for file in entries for span in file.queues))
        manifest = commit_store(folder, entries, rows)
    return summarize(out, folder.previous, manifest, started)


class _Output(NamedTuple):
    """Where files go, and what they are."""

    folder: Path
    source: str
    layout: Layout

    def files(self, prefix: str) -> Files:
        return open_files(self.folder, prefix, self.source, self.layout)


def _write_store(
    store: Path, rows: RowFilter, output: _Output, progress: Progress, workers: Workers | None
) -> list[str]:
    """The names of the files. One topic by its consume queues, if these can be relied on."""
    parts = parts_of(store, rows)
    progress(sum(file.size for file in CommitLog(store).files) - _size(parts))
    try:
        places = queue_places(store, rows)
        if places is not None:
            return _write_queues(parts, rows, places, output, progress)
    except UnsoundQueue as error:
        warn(f"{error}; the whole commit log is read instead")
    if workers is not None:
        return _write_parts(parts, rows, output, progress, workers)
    with output.files("part") as files:
        for part in parts:
            _write_part(part, rows, files, progress)
    return files.names


def _size(parts: Sequence[Part]) -> int:
    return sum(part.end - part.begin for part in parts)


def _write_queues(
    parts: Sequence[Part], rows: RowFilter, places: QueuePlaces, output: _Output, progress: Progress
) -> list[str]:
    with output.files("queue") as files:
        for part, batch in scan_by_queues(parts, rows, places):
            if batch is None:
                progress(part.end - part.begin)
            else:
                files.write(batch)
    return files.names


def _write_part(part: Part, rows: RowFilter, files: Files, progress: Progress) -> None:
    done = part.begin
    for batch in scan_part(part, rows, encoded=True):
        files.write(batch)
        reached = batch["commit_log_offset"][-1].as_py() - (part.base or 0)
        progress(reached - done)
        done = reached
    progress(part.end - done)


class _Task(NamedTuple):
    """One part, written by whoever is free, to files of its own."""

    number: int
    part: Part
    rows: RowFilter
    output: _Output

    @property
    def cost(self) -> int:
        return self.part.end - self.part.begin


def _write_parts(
    parts: Sequence[Part], rows: RowFilter, output: _Output, progress: Progress, workers: Workers
) -> list[str]:
    size = _size(parts)
    finer = cut_parts(parts, min(max(size // _PARTS, WORTH_A_PROCESS), output.layout.file_bytes))
    tasks = [_Task(number, part, rows, output) for number, part in enumerate(finer)]
    progress(size - sum(task.cost for task in tasks))
    found = workers.run(_write_task, tasks, progress)
    damage = next((one for one in found if isinstance(one, str)), None)
    if damage is not None:
        raise CorruptionError(damage)
    return [name for names in found for name in names]


def _write_task(task: _Task) -> list[str] | str:
    """The names of its files; the text of a CorruptionError, which does not go by pickle."""
    try:
        with task.output.files(f"part-{task.number:05d}") as files:
            for batch in scan_part(task.part, task.rows, encoded=True):
                files.write(batch)
    except CorruptionError as error:
        return str(error)
    return files.names


def commit_store(folder: ExportFolder, entries: list[FileEntry], rows: RowFilter) -> Manifest:
    """The next export goes on behind the last record, if nothing before it was left out for an end of the range."""
    before = folder.previous.files if folder.previous is not None else []
    ends = [rows.begin_commit_log, *(file.commit_log_end for file in (*before, *entries))]
    return folder.commit(entries, commit_log_offset=None if rows.has_end else max(ends))


def not_done(ranges: Sequence[QueueRange], previous: Manifest | None) -> list[QueueRange]:
    """The ranges without what an earlier export has."""
    ends = {span.key: span.end for span in previous.queues} if previous else {}
    found: list[QueueRange] = []
    for wanted in ranges:
        begin = max(wanted.begin, ends.get(_key(wanted), wanted.begin))
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
) -> ExportSummary:
    """Queue ranges of a topic, read by pull. `progress` is told messages.

    A queue that cannot be read, after some tries, is in `failed` of the summary, with what was read of it exported; when none
    can be read, the first error of the client comes out.
    """
    import trio

    started = time.perf_counter()
    origin = Origin(None, ranges[0].queue.topic if ranges else "")
    limit, writing = trio.CapacityLimiter(QUEUES_AT_ONCE), trio.Lock()
    ends: list[QueueEnd] = []

    async def read(wanted: QueueRange, files: Files) -> None:
        async def take(batch: Any) -> None:
            # Compressing takes long; meanwhile the other queues are read. The files take one batch at a time.
            async with writing:
                await trio.to_thread.run_sync(files.write, batch)
            progress(batch.num_rows)

        async with limit:
            ends.append(await read_queue(client, wanted, take))

    with ExportFolder(out, origin, layout, resume=resume) as folder:
        with open_files(folder.temporary, "part", origin.source, layout) as files:
            async with trio.open_nursery() as nursery:
                for wanted in not_done(ranges, folder.previous):
                    nursery.start_soon(read, wanted, files)
        entries = folder.measure(files.names)
        manifest = commit_topic(folder, entries, ends)
    return summarize(out, folder.previous, manifest, started, failed_of(ends))


def failed_of(ends: Sequence[QueueEnd]) -> list[QueueEnd]:
    """Those that were not read to their ends, in order."""
    return sorted((end for end in ends if end.error is not None), key=lambda end: end.wanted.queue)


def commit_topic(folder: ExportFolder, entries: list[FileEntry], ends: Sequence[QueueEnd]) -> Manifest:
    """What was read; the first error when that is nothing, of no queue."""
    failed = failed_of(ends)
    if failed and len(failed) == len(ends) and not entries and failed[0].error is not None:
        raise failed[0].error
    return folder.commit(
        entries, [QueueSpan(*_key(end.wanted), end.wanted.begin, end.reached, 0) for end in ends]
    )
