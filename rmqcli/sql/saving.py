"""Saves a result as a Parquet file, which appears when it is whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow import parquet

if TYPE_CHECKING:
    from rmqcli.sql.session import Result

ROW_GROUP_ROWS = 1 << 17


def save(out: Path, result: Result) -> tuple[int, int]:
    """Writes the rows, batch by batch; returns their number and the size of the file in bytes.

    An error leaves an older file as it was, and no other one.
    """
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    rows = 0
    try:
        with temporary.open("wb") as file:
            with parquet.ParquetWriter(file, result.schema, compression="zstd") as writer:
                for batch in result.batches():
                    writer.write_batch(batch, row_group_size=ROW_GROUP_ROWS)
                    rows += batch.num_rows
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    return rows, out.stat().st_size
