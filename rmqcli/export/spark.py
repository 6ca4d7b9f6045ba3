"""The export as a Spark job: each task scans its own part and writes Parquet with the same columnar code as without Spark.

A task attempt writes files of its own names to a temporary folder and gives the names back; Spark takes one attempt of each
task, and only the files that it names become the export. So failed, repeated and speculative attempts change nothing.
Executors need this package, and see the same store folder (or cluster) and the same --out folder as the driver.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from codec.errors import CorruptionError
from rmqcli.export.errors import ExportError
from rmqcli.export.live import QueueRange, read_some
from rmqcli.export.parquet import ExportFolder, ParquetFiles
from rmqcli.export.parts import Part, parts_of, scan_part
from rmqcli.export.rows import RowFilter
from rmqcli.export.session import spark_session
from rmqcli.export.summary import ExportSummary, schema_of, summarize

__all__ = ["export_store_on_spark", "export_topic_on_spark"]

PART_BYTES = 64 * 1024 * 1024

Read = Callable[[int], Iterator[Any]]
"""Record batches of the task of this number."""


def export_store_on_spark(
    store: Path, out: Path, rows: RowFilter, *, part_bytes: int = PART_BYTES, **session: Any
) -> ExportSummary:
    """As `export_store`, a task for each part. `session`: as for `spark_session`."""
    parts = parts_of(store.resolve(), rows, part_bytes)
    return _export(len(parts), partial(_read_part, parts, rows), str(store), out, session)


def export_topic_on_spark(
    client_options: Mapping[str, Any], ranges: list[QueueRange], out: Path, **session: Any
) -> ExportSummary:
    """As `export_topic`, a task for each queue range, each with a client of its own: a PullConsumer with these options."""
    source = ranges[0].queue.topic if ranges else ""
    return _export(len(ranges), partial(_read_queue, dict(client_options), ranges), source, out, session)


def _read_part(parts: list[Part], rows: RowFilter, index: int) -> Iterator[Any]:
    return scan_part(parts[index], rows)


def _read_queue(client_options: dict[str, Any], ranges: list[QueueRange], index: int) -> Iterator[Any]:
    """Batch by batch, each with a client that lives as long as the batch is read: a connection costs little against it."""
    import trio

    from rmqcli.client import PullConsumer

    wanted = ranges[index]

    async def step(offset: int) -> tuple[Any, int | None]:
        async with PullConsumer(**client_options) as consumer:
            return await read_some(consumer, wanted, offset)

    offset: int | None = wanted.begin
    while offset is not None:
        batch, offset = trio.run(step, offset)
        yield batch


def _export(tasks: int, read: Read, source: str, out: Path, session: Mapping[str, Any]) -> ExportSummary:
    schema, out = schema_of(source), out.resolve()
    with ExportFolder(out, schema) as folder, spark_session(**session) as spark:
        started = time.perf_counter()
        run = partial(_run_tasks, read, str(folder.temporary), source)
        try:
            numbers = spark.range(0, tasks, numPartitions=max(1, tasks))
            found = numbers.mapInArrow(run, "task bigint, name string").collect()
        except Exception as error:  # Py4J wraps whatever a task raised
            raise _reason(error) from error
        folder.commit(row["name"] for row in sorted(found))
        seconds = time.perf_counter() - started
    return summarize(out, seconds)


def _run_tasks(read: Read, folder: str, source: str, numbers: Iterator[Any]) -> Iterator[Any]:
    """In an executor: the names of the files that each task wrote."""
    import pyarrow as pa

    for batch in numbers:
        for task in batch.column(0).to_pylist():
            attempt = f"task-{task:05d}-{uuid.uuid4().hex}"
            with ParquetFiles(Path(folder), attempt, schema_of(source)) as files:
                for rows in read(task):
                    files.write(rows)
            names = pa.array(files.names, pa.string())
            yield pa.RecordBatch.from_arrays(
                [pa.array([task] * len(names), pa.int64()), names], ["task", "name"]
            )


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
