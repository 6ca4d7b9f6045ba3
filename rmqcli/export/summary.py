"""What an export came to, and the schema that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import rmqcli

__all__ = ["ExportSummary", "schema_of", "summarize"]


class ExportSummary(NamedTuple):
    """`size` is the bytes of the Parquet files; `seconds` is wall time."""

    out: Path
    files: int
    rows: int
    size: int
    seconds: float


def schema_of(source: str) -> Any:
    """The schema of every export; its metadata says what was exported, and by which version."""
    from codec.scan.arrow import schema

    return schema().with_metadata({"rmq.source": source, "rmq.version": rmqcli.__version__})


def summarize(out: Path, seconds: float) -> ExportSummary:
    """Counted from the files that were written: their own footers say how many rows they have."""
    from pyarrow import parquet

    files = sorted(out.glob("part-*.parquet"))
    rows = sum(parquet.read_metadata(file).num_rows for file in files)
    return ExportSummary(out, len(files), rows, sum(file.stat().st_size for file in files), seconds)
