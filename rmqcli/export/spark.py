"""The export as a Spark job: each task scans its own part with the columnar reader, Spark writes and commits the files.

Executors need this package, and see the same store folder (or the same cluster) as the driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rmqcli.export.errors import ExportError
from rmqcli.export.live import QueueRange, pull_batches
from rmqcli.export.parquet import refuse_existing
from rmqcli.export.parts import Part, parts_of, scan_part
from rmqcli.export.rows import RowFilter
from rmqcli.export.session import spark_session
from rmqcli.export.summary import ExportSummary, summarize

__all__ = ["SPARK_SCHEMA", "export_store_on_spark", "export_topic_on_spark"]

PART_BYTES = 64 * 1024 * 1024

SPARK_SCHEMA = ", ".join(
    (
        "topic string, broker_name string, queue_id int, queue_offset bigint, commit_log_offset bigint",
        "msg_id string, offset_msg_id string, tags string, keys array<string>, properties map<string,string>",
        "born_timestamp timestamp, born_host string, store_timestamp timestamp, store_host string",
        "flag int, sys_flag int, reconsume_times int, prepared_transaction_offset bigint",
        "store_size int, body_crc int, body binary",
    )
)

Read = Callable[[int], Iterator[Any]]


def export_store_on_spark(
    store: Path,
    out: Path,
    rows: RowFilter,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> ExportSummary:
    """As `export_store`, a task for each part. `seconds` counts from when the session is up."""
    parts = parts_of(store.resolve(), PART_BYTES)
    return _export(len(parts), partial(_read_part, parts, rows), out, master, conf, verbose)


def export_topic_on_spark(
    namesrv: str,
    ranges: list[QueueRange],
    out: Path,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> ExportSummary:
    """As `export_topic`, a task for each queue range, each with a client of its own."""
    plain = [
        (wanted.queue.topic, wanted.queue.broker_name, wanted.queue.queue_id, *wanted[1:])
        for wanted in ranges
    ]
    return _export(len(plain), partial(_read_queue, namesrv, plain), out, master, conf, verbose)


def _read_part(parts: list[Part], rows: RowFilter, index: int) -> Iterator[Any]:
    return scan_part(parts[index], rows)


def _read_queue(namesrv: str, ranges: list[tuple[Any, ...]], index: int) -> Iterator[Any]:
    import trio

    from codec.queue import MessageQueue
    from rmqcli.client import PullConsumer

    topic, broker_name, queue_id, *bounds = ranges[index]
    wanted = QueueRange(MessageQueue(topic, broker_name, queue_id), *bounds)

    async def read() -> list[Any]:
        async with PullConsumer(namesrv=namesrv) as consumer:
            return [batch async for batch in pull_batches(consumer, wanted)]

    return iter(trio.run(read))


def _export(
    tasks: int,
    read: Read,
    out: Path,
    master: str | None,
    conf: Mapping[str, str] | None,
    verbose: bool,
) -> ExportSummary:
    refuse_existing(out)

    def run_task(indexes: Iterator[Any]) -> Iterator[Any]:
        for batch in indexes:
            for index in batch.column(0).to_pylist():
                yield from read(index)

    with spark_session(master, conf, verbose=verbose) as session:
        started = time.perf_counter()
        numbers = session.range(0, tasks, numPartitions=max(1, tasks))
        try:
            numbers.mapInArrow(run_task, SPARK_SCHEMA).write.parquet(str(out.resolve()))
        except Exception as error:  # Py4J wraps whatever a task raised
            raise ExportError(f"the Spark job failed: {_reason(error)}") from error
        seconds = time.perf_counter() - started
    return summarize(out, seconds)


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error: " in line and "SparkException" not in line]
    return (telling or lines or [type(error).__name__])[-1]
