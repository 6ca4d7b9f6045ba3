"""Export as a Spark job: each task scans its part and writes Parquet with the same code as without Spark.

A task attempt writes files with unique names to a temporary folder and returns the names. Spark keeps one
attempt of each task, and only its files become part of the export, so failed, repeated and speculative
attempts have no effect. Executors need this package, and must see the same store folder (or cluster) and
--out folder as the driver.
"""

from __future__ import annotations

import gc
import re
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

import trio

from rmqcli.client import ClientError, PullConsumer
from rmqcli.codec.errors import CorruptionError
from rmqcli.export import packing
from rmqcli.export.errors import DecodeError, ExportError
from rmqcli.export.from_store import packing as store_parts
from rmqcli.export.from_store.by_queues import QueuePlaces, by_queues_or_walked, queue_places, scan
from rmqcli.export.from_store.packing import PlacedPart
from rmqcli.export.from_store.parts import parts_of
from rmqcli.export.from_store.queue_check import StoreQueues, UnsoundQueue
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic import ranges as topic_ranges
from rmqcli.export.from_topic.batches import QueueEnd, QueueRange, patiently, reached, read_some
from rmqcli.export.from_topic.ranges import lives_for
from rmqcli.export.output.layout import EVERYTHING, Layout
from rmqcli.export.output.parquet import Files, Output
from rmqcli.export.output.storage import Location
from rmqcli.export.output.storage_folder import open_folder
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
from rmqcli.export.spark.session import spark_session
from rmqcli.grammar.values import parse_size
from rmqcli.render.output import warn
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.files import DamagedFile, naming_full_disk

POLL_SECONDS = 0.2
PATIENCE = 75
"""The number of polls without a started task after which a warning is printed: 15 s."""
_GROUP = "spark.jobGroup.id"

Progress = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""Called with the number of tasks; returns a context that yields a receiver of finished tasks."""
Look = Callable[[], tuple[int, int]]
"""Returns the numbers of running and finished tasks."""


@contextmanager
def silent(tasks: int) -> Iterator[Callable[[int], None]]:
    yield lambda count: None


class Watch:
    """Reports the tasks finished since the last poll. Warns once if none starts."""

    def __init__(self, tasks: int, look: Look, advance: Callable[[int], None]) -> None:
        self._tasks = tasks
        self._look = look
        self._advance = advance
        self._reported = 0
        self._waited = 0

    def poll(self) -> None:
        running, done = self._look()
        self._report(done)
        self._waited = 0 if running or self._reported else self._waited + 1
        if self._waited == PATIENCE:
            warn("no task has started yet: has the Spark master workers with free cores and memory?")

    def end(self) -> None:
        self._report(self._tasks)

    def _report(self, done: int) -> None:
        if done > self._reported:
            self._advance(done - self._reported)
            self._reported = done


@contextmanager
def followed(context: Any, tasks: int, progress: Progress) -> Iterator[None]:
    """Watch, in a thread, the job that the calling thread runs on this SparkContext."""
    group, before, over = f"rmq-{uuid.uuid4().hex}", context.getLocalProperty(_GROUP), Event()
    with progress(tasks) as advance:
        watch = Watch(tasks, lambda: _counts(context.statusTracker(), group), advance)
        thread = Thread(target=_watch, args=(watch, over), daemon=True)
        context.setLocalProperty(_GROUP, group)
        try:
            thread.start()
            yield
        finally:
            over.set()
            thread.join()
            context.setLocalProperty(_GROUP, before)
        watch.end()


def _watch(watch: Watch, over: Event) -> None:
    with suppress(Exception):  # the session ended; the thread that runs the job gets the reason
        while not over.wait(POLL_SECONDS):
            watch.poll()


def _counts(tracker: Any, group: str) -> tuple[int, int]:
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numActiveTasks for stage in known), sum(stage.numCompletedTasks for stage in known)


End = tuple[int, str]
"""The offset up to which a queue was read, and the reason for not reading further."""


class Written(NamedTuple):
    """The names of the files of a task, in order, and the ends of its queues."""

    names: list[str]
    ends: list[End]


async def mean_sizes(client_options: Mapping[str, Any], ranges: list[QueueRange]) -> dict[str, int]:
    async with PullConsumer(**client_options) as consumer:
        return await topic_ranges.mean_sizes(consumer, ranges)


def joined(
    wanted: Sequence[QueueRange], tasks: Sequence[list[QueueRange]], done: Sequence[Written]
) -> tuple[list[QueueEnd], list[str]]:
    """Return the end up to which each queue was read without a gap, and the files up to that point."""
    ends = {one.queue: QueueEnd(one, one.begin) for one in wanted}
    names: list[str] = []
    for task, written in zip(tasks, done, strict=True):
        # Only a queue that was cut is in several tasks, and none of these tasks has another queue.
        if ends[task[0].queue].error is None:
            names += written.names
            for piece, end in zip(task, written.ends, strict=True):
                ends[piece.queue] = _after(ends[piece.queue], piece, end)
    return list(ends.values()), names


def _after(before: QueueEnd, piece: QueueRange, end: End) -> QueueEnd:
    offset, reason = end
    is_further = offset > piece.begin or piece.end_time is None
    return QueueEnd(
        before.wanted, offset if is_further else before.reached, ClientError(reason) if reason else None
    )


def read_queues(
    client_options: dict[str, Any], task: list[QueueRange], number: int
) -> Generator[Any, None, list[End]]:
    ends: list[End] = []
    for wanted in task:
        end = yield from _read_queue(client_options, wanted)
        ends.append(end)
    return ends


def _read_queue(client_options: dict[str, Any], wanted: QueueRange) -> Generator[Any, None, End]:
    """Read batches, each with its own client, because a connection costs little in comparison."""
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


LARGEST = "spark.sql.files.maxPartitionBytes"

Task = TypeVar("Task")
Read = Callable[[Task, int], Generator[Any, None, list[End] | None]]
"""Yields the record batches of a task, given with its number. Returns the ends of its queues, or nothing."""


Parts = list[PlacedPart]


def read_parts(rows: RowFilter, task: Parts, number: int) -> Generator[Any, None, None]:
    for part, places in task:
        yield from scan(part, rows, places)


ReadParts = Callable[[RowFilter, Parts, int], Generator[Any, None, None]]


def export_store_on_spark(
    store: Path, out: Location, rows: RowFilter, progress: Progress = silent, **options: Any
) -> ExportSummary:
    """Export one store, like `export_store`; see `export_stores_on_spark`."""
    return export_stores_on_spark([StoreRows(store, rows)], out, progress, **options)


def export_stores_on_spark(
    wanted: Sequence[StoreRows],
    out: Location,
    progress: Progress = silent,
    *,
    part_bytes: int | None = None,
    layout: Layout = EVERYTHING,
    resume: bool = False,
    read: ReadParts = read_parts,
    **session: Any,
) -> ExportSummary:
    """Export stores, like `export_stores`, in tasks of at most about `part_bytes` of wanted records.

    The default is spark.sql.files.maxPartitionBytes of the session. `session` are arguments of
    `spark_session`.
    """
    wanted = [one._replace(store=one.store.resolve()) for one in wanted]
    for one in wanted:
        CommitLogFiles(one.store)  # a missing store is reported before a folder is created
    with (
        open_folder(out.resolve(), stores_origin(wanted), layout, resume=resume) as folder,
        spark_session(**session) as spark,
    ):

        def write(number: int, queues: StoreQueues) -> list[str]:
            one, rows = wanted[number], queues.rows
            # A task has one core; the others are for other tasks.
            output = Output(folder.place, one.path, layout, in_thread=False)
            # Only with a choice of topics can a part that is cut anywhere be read by queues.
            places = queue_places(queues) if rows.topics else None
            parts = parts_of(one.store, rows)

            def run(places: QueuePlaces | None) -> list[str]:
                own = store_parts.sized(parts, places)
                size = _task_bytes(spark, sum(cost for _, cost in own), part_bytes)
                tasks = store_parts.in_tasks(own, size)
                job = partial(_run_task, partial(read, rows), output)
                return [name for written in _run(spark, tasks, job, progress) for name in written.names]

            return by_queues_or_walked(places, run)

        return run_stores_export(wanted, folder, write)._replace(out=str(out))


def export_topic_on_spark(
    client_options: Mapping[str, Any],
    ranges: list[QueueRange],
    out: Location,
    progress: Progress = silent,
    *,
    task_bytes: int | None = None,
    layout: Layout = EVERYTHING,
    resume: bool = False,
    asked: str | None = None,
    **session: Any,
) -> ExportSummary:
    """Export a topic, like `export_topic`, in tasks of at most about `task_bytes` of messages.

    Each task has a PullConsumer with `client_options`.
    """
    origin = topic_origin(ranges, asked)
    with (
        open_folder(out.resolve(), origin, layout, resume=resume) as folder,
        spark_session(**session) as spark,
    ):
        started = time.perf_counter()
        output = Output(folder.place, origin.source, layout, in_thread=False, of_store=False)
        compared = trio.run(lives_for, client_options, ranges, folder.previous)
        wanted, lost = not_done(compared.same, folder.previous)
        tasks = _topic_tasks(spark, client_options, wanted, task_bytes)
        job = partial(_run_task, partial(read_queues, dict(client_options)), output)
        ends, names = joined(wanted, tasks, _run(spark, tasks, job, progress))
        try:
            return commit_topic(folder, names, [*ends, *compared.others], started, lost)._replace(
                out=str(out)
            )
        except ClientError as error:
            raise ExportError(f"the Spark job failed: {error}") from error


def _task_bytes(spark: Any, total: int, most: int | None) -> int:
    context = spark.sparkContext
    if most is None:
        # The session's own settings are not read, because first access to them takes seconds.
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


def _run(
    spark: Any, tasks: Sequence[Task], job: Callable[[tuple[int, Task]], Written], progress: Progress
) -> list[Written]:
    # These are plain partitions, because a data frame would delay the first task of a new session by seconds.
    # Each contains its own task only: with the job, every task would read the queue files of all of them.
    if not tasks:
        return []
    context = spark.sparkContext
    try:
        with followed(context, len(tasks), progress):
            every = list(enumerate(tasks))
            written: list[Written] = context.parallelize(every, len(every)).map(job).collect()
    except Exception as error:  # Py4J wraps any error of a task
        raise _reason(error) from error
    return written


def _run_task(read: Read[Task], output: Output, numbered: tuple[int, Task]) -> Written:
    number, task = numbered
    attempt = output._replace(prefix=f"task-{number:05d}-{uuid.uuid4().hex}")
    with naming_full_disk(output.place.shown), attempt.open() as files:
        ends = _write_all(read(task, number), files)
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
    """Return a pattern that finds one of these errors, and its message, in a Python traceback."""
    names = "|".join(re.escape(f"{kind.__module__}.{kind.__qualname__}") for kind in kinds)
    return re.compile(rf"(?:{names}): (.*)")


_OURS: tuple[tuple[re.Pattern[str], type[Exception]], ...] = (
    (_raised(UnsoundQueue), UnsoundQueue),
    (_raised(CorruptionError, DamagedFile), CorruptionError),
    (_raised(DecodeError), DecodeError),
)
"""Errors of tasks that are raised again here; the first one found is used."""
_OF_FILE = re.compile(r"^\w+: \[Errno \d+\] (?P<reason>.*): '(?P<path>.*)'$")
_ERROR = re.compile(
    r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Refused|Lost|Failed|Timeout|Route): .*", re.MULTILINE
)


def _reason(error: BaseException) -> Exception:
    """Return the error that a task raised, from the traceback at the end of the text of Spark's error."""
    for pattern, kind in _OURS:
        found = pattern.search(str(error))
        if found is not None:
            return kind(found[1].strip())
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in _ERROR.findall(str(error)) if "SparkException" not in line]
    reason = _OF_FILE.sub(r"\g<path>: \g<reason>", (telling or lines or [type(error).__name__])[-1])
    return ExportError(f"the Spark job failed: {reason}")
