"""The export as a Spark job: each task scans its own part and writes Parquet with the same columnar code as without Spark.

A task attempt writes files of its own names to a temporary folder and gives the names back; Spark takes one attempt of each
task, and only the files that it names become the export. So failed, repeated and speculative attempts change nothing.
Executors need this package, and see the same store folder (or cluster) and the same --out folder as the driver.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from codec.errors import CorruptionError
from rmqcli.client import ClientError
from rmqcli.export.errors import ExportError
from rmqcli.export.folder import ExportFolder
from rmqcli.export.layout import Layout
from rmqcli.export.live import QueueRange, read_some
from rmqcli.export.local import commit_store, commit_topic, failed_of, not_done, store_origin
from rmqcli.export.manifest import Origin
from rmqcli.export.parquet import Files, open_files
from rmqcli.export.parts import Part, parts_of, scan_part
from rmqcli.export.queue_check import count_entries, require_rows
from rmqcli.export.retrying import QueueEnd, patiently, reached
from rmqcli.export.rows import RowFilter
from rmqcli.export.session import spark_session
from rmqcli.export.spans import merged
from rmqcli.export.summary import ExportSummary, summarize

__all__ = ["export_store_on_spark", "export_topic_on_spark"]

PART_BYTES = 64 * 1024 * 1024

Read = Callable[[int], Generator[Any, None, "tuple[int, str] | None"]]
"""Record batches of the task of this number; it returns the offset that a queue was read to, and why not further."""

_EVERYTHING = Layout()


def export_store_on_spark(
    store: Path,
    out: Path,
    rows: RowFilter,
    *,
    part_bytes: int = PART_BYTES,
    layout: Layout = _EVERYTHING,
    resume: bool = False,
    **session: Any,
) -> ExportSummary:
    """As `export_store`, a task for each part. `session`: as for `spark_session`."""
    store, out = store.resolve(), out.resolve()
    origin = store_origin(store, rows)
    parts_of(store, rows)  # a store that is not there is told before a folder is made
    with ExportFolder(out, origin, layout, resume=resume) as folder, spark_session(**session) as spark:
        started = time.perf_counter()
        rows = rows.after(folder.previous)
        expected = count_entries(store, rows) if rows.check_crc else {}
        parts = parts_of(store, rows, part_bytes)
        done = _run(spark, len(parts), partial(_read_part, parts, rows), folder, origin, layout)
        entries = folder.measure(done.names)
        require_rows(store, expected, merged(span for file in entries for span in file.queues))
        manifest = commit_store(folder, entries, rows)
        return summarize(out, folder.previous, manifest, started)


def export_topic_on_spark(
    client_options: Mapping[str, Any],
    ranges: list[QueueRange],
    out: Path,
    *,
    layout: Layout = _EVERYTHING,
    resume: bool = False,
    **session: Any,
) -> ExportSummary:
    """As `export_topic`, a task for each queue range, each with a client of its own: a PullConsumer with these options."""
    out, origin = out.resolve(), Origin(None, ranges[0].queue.topic if ranges else "")
    with ExportFolder(out, origin, layout, resume=resume) as folder, spark_session(**session) as spark:
        started = time.perf_counter()
        wanted = not_done(ranges, folder.previous)
        read = partial(_read_queue, dict(client_options), wanted)
        done = _run(spark, len(wanted), read, folder, origin, layout)
        ends = [_queue_end(queue, *done.ends[task]) for task, queue in enumerate(wanted)]
        try:
            manifest = commit_topic(folder, folder.measure(done.names), ends)
        except ClientError as error:
            raise ExportError(f"the Spark job failed: {error}") from error
        return summarize(out, folder.previous, manifest, started, failed_of(ends))


def _queue_end(wanted: QueueRange, offset: int, reason: str) -> QueueEnd:
    return QueueEnd(wanted, offset, ClientError(reason) if reason else None)


def _read_part(parts: list[Part], rows: RowFilter, index: int) -> Generator[Any, None, None]:
    yield from scan_part(parts[index], rows)


def _read_queue(
    client_options: dict[str, Any], ranges: list[QueueRange], index: int
) -> Generator[Any, None, tuple[int, str]]:
    """Batch by batch, each with a client that lives as long as the batch is read: a connection costs little against it."""
    import trio

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
    from rmqcli.client import PullConsumer

    async with PullConsumer(**client_options) as consumer:
        try:
            return *await patiently(lambda: read_some(consumer, wanted, offset)), ""
        except ClientError as error:
            return None, None, str(error)


class _Done(NamedTuple):
    """`names` of the files of all tasks, in the order of the tasks; `ends` is what tasks returned."""

    names: list[str]
    ends: dict[int, tuple[int, str]]


def _run(spark: Any, tasks: int, read: Read, folder: ExportFolder, origin: Origin, layout: Layout) -> _Done:
    run = partial(_run_tasks, read, str(folder.temporary), origin.source, layout)
    try:
        numbers = spark.range(0, tasks, numPartitions=max(1, tasks))
        rows = numbers.mapInArrow(run, "task bigint, name string, reached bigint, reason string").collect()
    except Exception as error:  # Py4J wraps whatever a task raised
        raise _reason(error) from error
    names = sorted((row["task"], row["name"]) for row in rows if row["name"] is not None)
    ends = {row["task"]: (row["reached"], row["reason"]) for row in rows if row["reached"] is not None}
    return _Done([name for _, name in names], ends)


def _run_tasks(read: Read, folder: str, source: str, layout: Layout, numbers: Iterator[Any]) -> Iterator[Any]:
    """In an executor: the names of the files that each task wrote, then what it returned."""
    import pyarrow as pa

    for batch in numbers:
        for task in batch.column(0).to_pylist():
            attempt = f"task-{task:05d}-{uuid.uuid4().hex}"
            with open_files(Path(folder), attempt, source, layout) as files:
                end = _write_all(read(task), files)
            rows = [{"task": task, "name": name} for name in files.names]
            rows += [] if end is None else [{"task": task, "reached": end[0], "reason": end[1]}]
            yield pa.RecordBatch.from_pylist(rows, _result_schema())


def _result_schema() -> Any:
    import pyarrow as pa

    names = {"task": pa.int64(), "name": pa.string(), "reached": pa.int64(), "reason": pa.string()}
    return pa.schema(names.items())


def _write_all(batches: Generator[Any, None, tuple[int, str] | None], files: Files) -> tuple[int, str] | None:
    while True:
        try:
            files.write(next(batches))
        except StopIteration as stop:
            end: tuple[int, str] | None = stop.value
            return end


_DAMAGE = re.compile(r"(?:codec\.errors\.CorruptionError|rmqcli\.store\.files\.DamagedFile): (.*)")
_ERROR = re.compile(
    r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Refused|Lost|Failed|Timeout|Route): .*", re.MULTILINE
)


def _reason(error: BaseException) -> Exception:
    """What a task raised, from the text that Spark makes of it: its traceback ends with the type and the message."""
    damage = _DAMAGE.search(str(error))
    if damage is not None:
        return CorruptionError(damage[1].strip())
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in _ERROR.findall(str(error)) if "SparkException" not in line]
    return ExportError(f"the Spark job failed: {(telling or lines or [type(error).__name__])[-1]}")
