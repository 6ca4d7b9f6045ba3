"""The export on this machine: parts one after the other, or a topic's queues by pull."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rmqcli.export.live import QueueRange, pull_batches
from rmqcli.export.parquet import ParquetFolder, refuse_existing
from rmqcli.export.parts import parts_of, scan_part
from rmqcli.export.rows import RowFilter
from rmqcli.export.summary import ExportSummary, summarize

__all__ = ["export_store", "export_topic"]

PART_BYTES = 256 * 1024 * 1024

Progress = Callable[[int], None]


def _silent(count: int) -> None:
    return None


def export_store(store: Path, out: Path, rows: RowFilter, progress: Progress = _silent) -> ExportSummary:
    """Every record of a store's commit log that `rows` takes. `progress` is told bytes of commit log as they are done.

    ExportError when `out` is not empty, CorruptionError at damage, FileNotFoundError when there is no commit log.
    """
    from codec.scan.arrow import schema

    started = time.perf_counter()
    parts = parts_of(store, PART_BYTES)
    with ParquetFolder(out, schema(), {"rmq.source": str(store)}) as folder:
        for part in parts:
            for batch in scan_part(part, rows):
                folder.write(batch)
            progress(part.end - part.begin)
    return summarize(out, time.perf_counter() - started)


async def export_topic(
    client: Any, ranges: list[QueueRange], out: Path, progress: Progress = _silent
) -> ExportSummary:
    """Queue ranges of a topic, read by pull. `progress` is told messages. Errors of the client come out as they are."""
    from codec.scan.arrow import schema

    refuse_existing(out)
    started = time.perf_counter()
    source = ranges[0].queue.topic if ranges else ""
    with ParquetFolder(out, schema(), {"rmq.source": source}) as folder:
        for wanted in ranges:
            async for batch in pull_batches(client, wanted):
                folder.write(batch)
                progress(batch.num_rows)
    return summarize(out, time.perf_counter() - started)
