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
from pathlib import Path
from typing import Any

import trio

from codec.errors import CorruptionError
from rmqcli.client import ClientError
from rmqcli.export import packing
from rmqcli.export.errors import DecodeError, ExportError
from rmqcli.export.from_store import packing as store_parts
from rmqcli.export.from_store.by_queues import QueuePlaces, by_queues_or_walked, queue_places, scan
from rmqcli.export.from_store.packing import PlacedPart
from rmqcli.export.from_store.parts import parts_of
from rmqcli.export.from_store.queue_entries import UnsoundQueue
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic import packing as topic_ranges
from rmqcli.export.from_topic.batches import QueueRange
from rmqcli.export.from_topic.lives import lives_for
from rmqcli.export.output.folder import ExportFolder
from rmqcli.export.output.layout import EVERYTHING, Layout
from rmqcli.export.output.parquet import Files, Output
from rmqcli.export.packing import TASK_BYTES
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
from rmqcli.export.spark.queues import End, Written, joined, mean_sizes, read_queues
from rmqcli.export.spark.session import spark_session
from rmqcli.grammar.values import parse_size
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.files import DamagedFile, naming_full_disk

LARGEST = "spark.sql.files.maxPartitionBytes"

Read = Callable[[int], Generator[Any, None, list[End] | None]]
"""Yields the record batches of a task, given its number; returns the ends of its queues, or nothing."""


Tasks = list[list[PlacedPart]]


def read_parts(tasks: Tasks, rows: RowFilter, index: int) -> Generator[Any, None, None]:
    for part, places in tasks[index]:
        yield from scan(part, rows, places)


ReadParts = Callable[[Tasks, RowFilter, int], Generator[Any, None, None]]


def export_store_on_spark(
    store: Path, out: Path, rows: RowFilter, progress: Progress = silent, **options: Any
) -> ExportSummary:
    """Export as `export_store` does: `export_stores_on_spark` with one."""
    return export_stores_on_spark([StoreRows(store, rows)], out, progress, **options)


def export_stores_on_spark(
    wanted: Sequence[StoreRows],
    out: Path,
    progress: Progress = silent,
    *,
    part_bytes: int | None = None,
    layout: Layout = EVERYTHING,
    resume: bool = False,
    read: ReadParts = read_parts,
    **session: Any,
) -> ExportSummary:
    """Export as `export_stores` does, with tasks of at most about `part_bytes` of wanted records.

    The default is spark.sql.files.maxPartitionBytes of the session. `session` are arguments of
    `spark_session`.
    """
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
            places = queue_places(one.store, one.rows) if one.rows.topics else None
            parts = parts_of(one.store, one.rows)

            def run(places: QueuePlaces | None) -> list[str]:
                own = store_parts.sized(parts, places)
                size = _task_bytes(spark, sum(cost for _, cost in own), part_bytes)
                tasks = store_parts.in_tasks(own, size)
                job = partial(_run_task, partial(read, tasks, one.rows), output)
                return [name for written in _run(spark, len(tasks), job, progress) for name in written.names]

            return by_queues_or_walked(places, run)

        return run_stores_export(wanted, folder, write)._replace(out=str(out))


def export_topic_on_spark(
    client_options: Mapping[str, Any],
    ranges: list[QueueRange],
    out: Path,
    progress: Progress = silent,
    *,
    task_bytes: int | None = None,
    layout: Layout = EVERYTHING,
    resume: bool = False,
    asked: str | None = None,
    **session: Any,
) -> ExportSummary:
    """Export as `export_topic` does, with tasks of at most about `task_bytes` of messages.

    Each task has a PullConsumer with `client_options`.
    """
    origin = topic_origin(ranges, asked)
    with (
        ExportFolder(out.resolve(), origin, layout, resume=resume) as folder,
        spark_session(**session) as spark,
    ):
        started = time.perf_counter()
        output = Output(folder.place, origin.source, layout, in_thread=False, of_store=False)
        compared = trio.run(lives_for, client_options, ranges, folder.previous)
        wanted, lost = not_done(compared.same, folder.previous)
        tasks = _topic_tasks(spark, client_options, wanted, task_bytes)
        job = partial(_run_task, partial(read_queues, dict(client_options), tasks), output)
        ends, names = joined(wanted, tasks, _run(spark, len(tasks), job, progress))
        try:
            return commit_topic(folder, names, [*ends, *compared.others], started, lost)._replace(
                out=str(out)
            )
        except ClientError as error:
            raise ExportError(f"the Spark job failed: {error}") from error


def _task_bytes(spark: Any, total: int, most: int | None) -> int:
    context = spark.sparkContext
    if most is None:
        # Not of the session's own settings: the first look at them takes seconds.
        size = context.getConf().get(LARGEST)
        most = TASK_BYTES if size is None else parse_size(LARGEST, size)
    return packing.task_bytes(total, most, context.defaultParallelism)


def _topic_tasks(
    spark: Any, client_options: Mapping[str, Any], ranges: list[QueueRange], most: int | None
) -> list[list[QueueRange]]:
    some = [wanted for wanted in ranges if wanted.begin < wanted.end]
    sizes = trio.run(mean_sizes, client_options, some)
    total = sum(topic_ranges.bytes_of(wanted, sizes) for wanted in some)
    return topic_ranges.in_tasks(some, sizes, _task_bytes(spark, total, most))


def _run(spark: Any, tasks: int, job: Callable[[int], Written], progress: Progress) -> list[Written]:
    # Plain partitions: a data frame would delay the first task of a new session by seconds.
    if not tasks:
        return []
    context = spark.sparkContext
    try:
        with followed(context, tasks, progress):
            written: list[Written] = context.parallelize(range(tasks), tasks).map(job).collect()
    except Exception as error:  # Py4J wraps whatever a task raised
        raise _reason(error) from error
    return written


def _run_task(read: Read, output: Output, task: int) -> Written:
    attempt = output._replace(prefix=f"task-{task:05d}-{uuid.uuid4().hex}")
    with naming_full_disk(output.place.shown), attempt.open() as files:
        ends = _write_all(read(task), files)
    _spare_modules()
    return Written(files.names, ends)


def _spare_modules() -> None:
    """Exempt modules from the garbage collection after every task, which would take 40 of its 150 ms."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


def _write_all(batches: Generator[Any, None, list[End] | None], files: Files) -> list[End]:
    while True:
        try:
            files.write(next(batches))
        except StopIteration as stop:
            return stop.value or []


def _raised(*kinds: type[Exception]) -> re.Pattern[str]:
    """Return a pattern for one of these errors, and its message, in a Python traceback."""
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
    """Return the error that a task raised, from the traceback that ends the text of Spark's error."""
    for pattern, kind in _OURS:
        found = pattern.search(str(error))
        if found is not None:
            return kind(found[1].strip())
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in _ERROR.findall(str(error)) if "SparkException" not in line]
    reason = _OF_FILE.sub(r"\g<path>: \g<reason>", (telling or lines or [type(error).__name__])[-1])
    return ExportError(f"the Spark job failed: {reason}")
