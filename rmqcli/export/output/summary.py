"""The summary of an export."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rmqcli.export.from_topic.retrying import QueueEnd
from rmqcli.export.output.manifest import FileEntry, Manifest


class ExportSummary(NamedTuple):
    """What one run added: `size` is bytes of Parquet files, `seconds` is wall time, `failed` are queues that
    were not read to their ends.
    """

    out: Path
    files: int
    rows: int
    size: int
    seconds: float
    failed: tuple[QueueEnd, ...] = ()


def summarize(
    out: Path, before: Manifest | None, after: Manifest, started: float, failed: Sequence[QueueEnd] = ()
) -> ExportSummary:
    """Compares two manifests; `started` is a time of `time.perf_counter`."""
    added: list[FileEntry] = after.files[len(before.files) if before else 0 :]
    rows, size = sum(file.rows for file in added), sum(file.bytes for file in added)
    return ExportSummary(out, len(added), rows, size, time.perf_counter() - started, tuple(failed))
