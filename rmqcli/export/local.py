"""The export on this machine: file after file of a store, or a topic's queues by pull."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rmqcli.export.live import QueueRange, read_some
from rmqcli.export.parquet import ExportFolder, ParquetFiles
from rmqcli.export.parts import parts_of, scan_part
from rmqcli.export.rows import RowFilter
from rmqcli.export.summary import ExportSummary, schema_of, summarize

__all__ = ["export_store", "export_topic"]

QUEUES_AT_ONCE = 4
"""So many queues are read at the same time; each holds one batch."""

Progress = Callable[[int], None]


def _silent(count: int) -> None:
    return None


def export_store(store: Path, out: Path, rows: RowFilter, progress: Progress = _silent) -> ExportSummary:
    """Every record of a store's commit log that `rows` takes. `progress` is told bytes of commit log as they are done.

    OutputExists when `out` is not empty, CorruptionError at damage, FileNotFoundError when there is no commit log.
    """
    started = time.perf_counter()
    parts, schema = parts_of(store, rows), schema_of(str(store))
    with ExportFolder(out, schema) as folder:
        with ParquetFiles(folder.temporary, "part", schema) as files:
            for part in parts:
                done = 0
                for batch in scan_part(part, rows):
                    files.write(batch)
                    reached = batch["commit_log_offset"][-1].as_py() - (part.base or 0)
                    progress(reached - done)
                    done = reached
                progress(part.size - done)
        folder.commit(files.names)
    return summarize(out, time.perf_counter() - started)


async def export_topic(
    client: Any, ranges: list[QueueRange], out: Path, progress: Progress = _silent
) -> ExportSummary:
    """Queue ranges of a topic, read by pull. `progress` is told messages. Errors of the client come out as they are."""
    import trio

    started = time.perf_counter()
    schema = schema_of(ranges[0].queue.topic if ranges else "")
    limit = trio.CapacityLimiter(QUEUES_AT_ONCE)

    async def read(wanted: QueueRange, files: ParquetFiles) -> None:
        offset: int | None = wanted.begin
        async with limit:
            while offset is not None:
                batch, offset = await read_some(client, wanted, offset)
                # Compressing takes long; meanwhile the other queues are read. The files take one batch at a time.
                async with writing:
                    await trio.to_thread.run_sync(files.write, batch)
                progress(batch.num_rows)

    writing = trio.Lock()
    with ExportFolder(out, schema) as folder:
        with ParquetFiles(folder.temporary, "part", schema) as files:
            async with trio.open_nursery() as nursery:
                for wanted in ranges:
                    nursery.start_soon(read, wanted, files)
        folder.commit(files.names)
    return summarize(out, time.perf_counter() - started)
