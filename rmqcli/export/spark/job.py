"""Export as a Spark job: each task scans its part and writes Parquet with the code that is used without
Spark.

A task attempt writes files with unique names to a temporary folder and returns the names; Spark keeps one
attempt of each task, and only its files join the export. So failed, repeated and speculative attempts change
nothing. Executors need this package, and must see the same store folder (or cluster) and --out folder as the
driver.
"""

from __future__ import annotations

import gc
import re
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import trio

from codec.errors import CorruptionError
from rmqcli.client import ClientError, PullConsumer
from rmqcli.export.errors import DecodeError, ExportError
from rmqcli.export.from_store.by_queues import QueuePlaces, by_queues_or_walked, divided, queue_places, scan
from rmqcli.export.from_store.parts import Part, parts_of
from rmqcli.export.from_store.queue_entries import UnsoundQueue
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic.batches import QueueRange, read_some
from rmqcli.export.from_topic.retrying import QueueEnd, patiently, reached
from rmqcli.export.output.folder import ExportFolder
from rmqcli.export.output.layout import EVERYTHING, Layout
from rmqcli.export.output.parquet import Files, Output
from rmqcli.export.run import (
    ExportSummary,
    StoreRows,
    commit_topic,
    not_done,
    run_stores_export,
    stores_origin,
    topic_origin,
)
from rmqcli.export.spark.progress import Progress, followed, silent
from rmqcli.export.spark.session import spark_session
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.files import DamagedFile, naming_full_disk

PART_BYTES = 128 * 1024 * 1024
RANGE_MESSAGES = 1 << 17
"""Longer ranges of a queue become several tasks."""

End = tuple[int, str]
"""The offset that a queue was read to, and why not further."""
Read = Callable[[int], Generator[Any, None, End | None]]
"""Yields the record batches of a task, given its number; returns the end of a queue, or nothing."""


def read_part(
    parts: list[tuple[Part, QueuePlaces | None]], rows: RowFilter, index: int
) -> Generator[Any, None, None]:
    part, places = parts[index]
    yield from scan(part, rows, places)


ReadPart = Callable[[list[tuple[Part, QueuePlaces | None]], RowFilter, int], Generator[Any, None, None]]


def export_store_on_spark(
    store: Path, out: Path, rows: RowFilter, progress: Progress = silent, **options: Any
) -> ExportSummary:
    """Exports as `export_store` does: `export_stores_on_spark` with one."""
    return export_stores_on_spark([StoreRows(store, rows)], out, progress, **options)


def export_stores_on_spark(
    wanted: Sequence[StoreRows],
    out: Path,
    progress: Progress = silent,
    *,
    part_bytes: int = PART_BYTES,
    layout: Layout = EVERYTHING,
    resume: bool = False,
    read: ReadPart = read_part,
    **session: Any,
) -> ExportSummary:
    """Exports as `export_stores` does, with a task a part; `session` are arguments of `spark_session`."""
    wanted = [one._replace(store=one.store.resolve()) for one in wanted]
    for one in wanted:
        CommitLogFiles(one.store)  # a missing store is reported before a folder is created
    with (
        ExportFolder(out.resolve(), stores_origin(wanted), layout, resume=resume) as folder,
        spark_session(**session) as spark,
    ):

        def write(number: int, one: StoreRows) -> list[str]:
            # A task has one core: the others are for other tasks.
            output = Output(folder.place, one.path, layout, in_thread=False)
            # Only with topics can a part that is cut anywhere be read by queues.
            places = queue_places(*one) if one.rows.topics else None
            parts = parts_of(*one, part_bytes)

            def run(places: QueuePlaces | None) -> list[str]:
                own = list(divided(parts, places))
                job = partial(_run_task, partial(read, own, one.rows), output)
                return [name for written in _run(spark, len(own), job, progress) for name in written.names]

            return by_queues_or_walked(places, run)

        return run_stores_export(wanted, folder, write)


def export_topic_on_spark(
    client_options: Mapping[str, Any],
    ranges: list[QueueRange],
    out: Path,
    progress: Progress = silent,
    *,
    range_messages: int = RANGE_MESSAGES,
    layout: Layout = EVERYTHING,
    resume: bool = False,
    **session: Any,
) -> ExportSummary:
    """Exports as `export_topic` does, with a task for each `range_messages` of a queue.

    Each task has a PullConsumer with `client_options`.
    """
    origin = topic_origin(ranges)
    with (
        ExportFolder(out.resolve(), origin, layout, resume=resume) as folder,
        spark_session(**session) as spark,
    ):
        started = time.perf_counter()
        output = Output(folder.place, origin.source, layout, in_thread=False, of_store=False)
        wanted, lost = not_done(ranges, folder.previous)
        pieces = [queue.cut(-(-(queue.end - queue.begin) // range_messages)) for queue in wanted]
        tasks = [piece for own in pieces for piece in own]
        job = partial(_run_task, partial(_read_queue, dict(client_options), tasks), output)
        done = iter(_run(spark, len(tasks), job, progress))
        joined = [
            _joined(queue, list(zip(own, islice(done, len(own)), strict=True)))
            for queue, own in zip(wanted, pieces, strict=True)
        ]
        names = [name for _, names in joined for name in names]
        try:
            return commit_topic(folder, names, [end for end, _ in joined], started, lost)
        except ClientError as error:
            raise ExportError(f"the Spark job failed: {error}") from error


def _joined(wanted: QueueRange, pieces: Sequence[tuple[QueueRange, _Written]]) -> tuple[QueueEnd, list[str]]:
    """Returns how far a queue was read without a gap, and the files up to there."""
    names: list[str] = []
    reached = wanted.begin
    for piece, written in pieces:
        names += written.names
        offset, reason = written.end or (piece.begin, "")
        if offset > piece.begin or wanted.end_time is None:
            reached = offset
        if reason:
            return QueueEnd(wanted, reached, ClientError(reason)), names
    return QueueEnd(wanted, reached), names


def _read_queue(
    client_options: dict[str, Any], ranges: list[QueueRange], index: int
) -> Generator[Any, None, End]:
    """Reads batches, each with its own client: a connection costs little in comparison."""
    wanted = ranges[index]
    end, offset = wanted.begin, wanted.begin
    following: int | None = offset
    while following is not None:
        offset = following
        batch, following, reason = trio.run(_step, client_options, wanted, offset)
        if reason:
            return end, reason
        yield batch
        end = reached(wanted, end, batch, following)
    return end, ""


async def _step(
    client_options: dict[str, Any], wanted: QueueRange, offset: int
) -> tuple[Any, int | None, str]:
    async with PullConsumer(**client_options) as consumer:
        try:
            return *await patiently(lambda: read_some(consumer, wanted, offset)), ""
        except ClientError as error:
            return None, None, str(error)


def _run(spark: Any, tasks: int, job: Callable[[int], _Written], progress: Progress) -> list[_Written]:
    # Plain partitions: a data frame would delay the first task of a new session by seconds.
    if not tasks:
        return []
    context = spark.sparkContext
    try:
        with followed(context, tasks, progress):
            written: list[_Written] = context.parallelize(range(tasks), tasks).map(job).collect()
    except Exception as error:  # Py4J wraps whatever a task raised
        raise _reason(error) from error
    return written


class _Written(NamedTuple):
    """The names of a task's files, in order, and the end of its queue."""

    names: list[str]
    end: End | None


def _run_task(read: Read, output: Output, task: int) -> _Written:
    attempt = output._replace(prefix=f"task-{task:05d}-{uuid.uuid4().hex}")
    with naming_full_disk(output.place.shown), attempt.open() as files:
        end = _write_all(read(task), files)
    _spare_modules()
    return _Written(files.names, end)


def _spare_modules() -> None:
    """Exempts modules from the garbage collection after every task, which would take 40 of its 150 ms."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


def _write_all(batches: Generator[Any, None, End | None], files: Files) -> End | None:
    while True:
        try:
            files.write(next(batches))
        except StopIteration as stop:
            end: End | None = stop.value
            return end


def _raised(*kinds: type[Exception]) -> re.Pattern[str]:
    """Returns a pattern for one of these errors, and its message, in a Python traceback."""
    names = "|".join(re.escape(f"{kind.__module__}.{kind.__qualname__}") for kind in kinds)
    return re.compile(rf"(?:{names}): (.*)")


_OURS: tuple[tuple[re.Pattern[str], type[Exception]], ...] = (
    (_raised(UnsoundQueue), UnsoundQueue),
    (_raised(CorruptionError, DamagedFile), CorruptionError),
    (_raised(DecodeError), DecodeError),
)
"""Errors of tasks that are raised again here, the first one found."""
_OF_FILE = re.compile(r"^\w+: \[Errno \d+\] (?P<reason>.*): '(?P<path>.*)'$")
_ERROR = re.compile(
    r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Refused|Lost|Failed|Timeout|Route): .*", re.MULTILINE
)


def _reason(error: BaseException) -> Exception:
    """Returns the error that a task raised, from the traceback that ends the text of Spark's error."""
    for pattern, kind in _OURS:
        found = pattern.search(str(error))
        if found is not None:
            return kind(found[1].strip())
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in _ERROR.findall(str(error)) if "SparkException" not in line]
    reason = _OF_FILE.sub(r"\g<path>: \g<reason>", (telling or lines or [type(error).__name__])[-1])
    return ExportError(f"the Spark job failed: {reason}")
