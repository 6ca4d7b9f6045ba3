"""Export on this machine: the files of a store, or the queues of a topic."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import trio

from rmqcli.codec.errors import CorruptionError
from rmqcli.export.from_store.by_queues import QueuePlaces, by_queues_or_walked, divided, queue_places, scan
from rmqcli.export.from_store.parts import Part, cut_parts, parts_of
from rmqcli.export.from_store.queue_check import StoreQueues, UnsoundQueue
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic.batches import BATCH_MESSAGES, QueueEnd, QueueRange, read_queue
from rmqcli.export.from_topic.ranges import lives
from rmqcli.export.output.folder import Destination
from rmqcli.export.output.layout import EVERYTHING, Layout
from rmqcli.export.output.parquet import Files, Output
from rmqcli.export.output.storage import Location
from rmqcli.export.output.storage_folder import open_folder
from rmqcli.export.run import (
    ExportSummary,
    StoreRows,
    commit_topic,
    not_done,
    run_stores_export,
    stores_origin,
    topic_origin,
)
from rmqcli.store import CommitLogFiles
from rmqcli.store.workers import WORTH_A_PROCESS, Progress, Workers

QUEUES_AT_ONCE = 4
"""The number of queues read at the same time. Each has one batch in memory."""

_PARTS = 8
"""The number of parts of a log for several processes; none is small, and none larger than a file may be."""


def export_store(
    store: Path, out: Location, rows: RowFilter, progress: Progress = lambda count: None, **options: Any
) -> ExportSummary:
    """Export the records of the commit log of a store that `rows` accepts; see `export_stores`."""
    return export_stores([StoreRows(store, rows)], out, progress, **options)


def export_stores(
    wanted: Sequence[StoreRows],
    out: Location,
    progress: Progress = lambda count: None,
    *,
    layout: Layout = EVERYTHING,
    resume: bool = False,
    workers: Workers | None = None,
    part_bytes: int | None = None,
) -> ExportSummary:
    """Export the records of the commit logs of stores that the filters accept.

    `progress` receives bytes of commit log. `workers` are processes, each of which writes its files from
    parts of `part_bytes`. With `resume`, only records that the export in `out` lacks are added.

    Raises OutputExists if `out` is not empty, or cannot be resumed; CorruptionError at damage, if no other
    store is undamaged, and (with `check_crc`) if a consume queue has more entries than there are records;
    FileNotFoundError without a commit log.
    """
    for one in wanted:
        CommitLogFiles(one.store)  # a missing store is reported before a folder is created
    with open_folder(out, stores_origin(wanted), layout, resume=resume) as folder:
        return write_stores(wanted, folder, progress, workers=workers, part_bytes=part_bytes)


def write_stores(
    wanted: Sequence[StoreRows],
    into: Destination,
    progress: Progress = lambda count: None,
    *,
    workers: Workers | None = None,
    part_bytes: int | None = None,
) -> ExportSummary:
    """Add the rows that a destination lacks, like `export_stores`."""

    def write(number: int, queues: StoreQueues) -> list[str]:
        one = wanted[number]
        output = Output(into.place, one.path, into.layout, prefix=f"{into.prefix}store-{number:03d}")
        parts = parts_of(one.store, queues.rows)
        progress(sum(file.size for file in CommitLogFiles(one.store).files) - _size(parts))
        writer = _Writer(parts, queues.rows, output, progress, workers, part_bytes)
        return by_queues_or_walked(queue_places(queues), writer.write)

    return run_stores_export(wanted, into, write)


def _size(parts: Sequence[Part]) -> int:
    return sum(part.end - part.begin for part in parts)


class _Writer(NamedTuple):
    parts: Sequence[Part]
    rows: RowFilter
    output: Output
    progress: Progress
    workers: Workers | None
    part_bytes: int | None

    def write(self, places: QueuePlaces | None) -> list[str]:
        """Write the files and return their names."""
        output = self.output if places is None else self.output._replace(prefix=f"{self.output.prefix}-queue")
        # Without a choice of topics, only whole files can be read by queues.
        if self.workers is not None and (places is None or self.rows.topics):
            return self._write_in_processes(self.workers, output, places)
        with output.open() as files:
            for part in self.parts:
                self._write_part(part, places, files)
        return files.names

    def _write_part(self, part: Part, places: QueuePlaces | None, files: Files) -> None:
        done = part.begin
        for batch in scan(part, self.rows, places, encoded=True):
            files.write(batch)
            reached = max(done, batch["commit_log_offset"][-1].as_py() - (part.base or 0))
            self.progress(reached - done)
            done = reached
        self.progress(part.end - done)

    def _write_in_processes(self, workers: Workers, output: Output, places: QueuePlaces | None) -> list[str]:
        size = _size(self.parts)
        part_bytes = self.part_bytes or max(size // _PARTS, WORTH_A_PROCESS)
        finer = divided(cut_parts(self.parts, min(part_bytes, output.layout.file_bytes)), places)
        tasks = [
            _Task(part, self.rows, own, output._replace(prefix=f"{output.prefix}-{number:05d}"))
            for number, (part, own) in enumerate(finer)
        ]
        self.progress(size - sum(task.cost for task in tasks))
        found = workers.run(_write_task, tasks, self.progress)
        # An unsound queue comes first: the log is then walked, which finds any damage itself.
        errors = [one for one in found if isinstance(one, Exception)]
        if errors:
            raise next((error for error in errors if isinstance(error, UnsoundQueue)), errors[0])
        return [name for names in found if not isinstance(names, Exception) for name in names]


class _Task(NamedTuple):
    """One part, written by a free worker to separate files."""

    part: Part
    rows: RowFilter
    places: QueuePlaces | None
    output: Output

    @property
    def cost(self) -> int:
        return self.part.end - self.part.begin


def _write_task(task: _Task) -> list[str] | CorruptionError | UnsoundQueue:
    """Return the names of the files of a task, or the error that prevented writing them."""
    try:
        with task.output.open() as files:
            for batch in scan(task.part, task.rows, task.places, encoded=True):
                files.write(batch)
    except CorruptionError as error:
        return CorruptionError(str(error))  # a type that can be pickled
    except UnsoundQueue as error:
        return error
    return files.names


async def export_topic(
    client: Any,
    ranges: list[QueueRange],
    out: Location,
    progress: Progress = lambda count: None,
    *,
    layout: Layout = EVERYTHING,
    resume: bool = False,
    batch_messages: int = BATCH_MESSAGES,
    asked: str | None = None,
) -> ExportSummary:
    """Export queue ranges of topics, pulled from brokers. `progress` receives numbers of messages.

    A queue that cannot be read after some attempts is listed in `failed` of the summary, and its messages up
    to that point are exported. Raises the first ClientError if no queue can be read.
    """
    with open_folder(out, topic_origin(ranges, asked), layout, resume=resume) as folder:
        return await write_topic(client, ranges, folder, progress, batch_messages=batch_messages)


async def write_topic(
    client: Any,
    ranges: list[QueueRange],
    into: Destination,
    progress: Progress = lambda count: None,
    *,
    batch_messages: int = BATCH_MESSAGES,
) -> ExportSummary:
    """Add the rows that a destination lacks, like `export_topic`."""
    started = time.perf_counter()
    limit, writing = trio.CapacityLimiter(QUEUES_AT_ONCE), trio.Lock()
    ends: list[QueueEnd] = []

    async def read(wanted: QueueRange, files: Files) -> None:
        async def take(batch: Any) -> None:
            # Compression takes long, so other queues are read meanwhile. Files accept one batch at a time.
            async with writing:
                await trio.to_thread.run_sync(files.write, batch)
            progress(batch.num_rows)

        async with limit:
            ends.append(await read_queue(client, wanted, take, batch_messages))

    compared = await lives(client, ranges, into.previous)
    ends += compared.others
    rest = not_done(compared.same, into.previous)
    source = topic_origin(ranges).source
    with Output(into.place, source, into.layout, prefix=f"{into.prefix}part", of_store=False).open() as files:
        async with trio.open_nursery() as nursery:
            for wanted in rest.ranges:
                nursery.start_soon(read, wanted, files)
    return commit_topic(into, files.names, ends, started, rest.lost)
