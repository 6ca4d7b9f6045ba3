"""Saves a result as a Parquet file, which appears when it is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from rmqcli.files import replacing

if TYPE_CHECKING:
    from rmqcli.sql.result import Result

ROW_GROUP_BYTES = 1 << 26
"""Bytes of rows that are gathered for a row group."""


def save(out: Path, result: Result) -> tuple[int, int]:
    """Write the rows, batch by batch; return their number and the size of the file in bytes.

    An error leaves an older file as it was, and no other one.
    """
    rows = 0
    with replacing(out) as file, parquet.ParquetWriter(file, result.schema, compression="zstd") as writer:
        for table in _row_groups(result):
            writer.write_table(table, row_group_size=table.num_rows)
            rows += table.num_rows
    return rows, out.stat().st_size


def _row_groups(result: Result) -> Iterator[Any]:
    gathered: list[Any] = []
    size = 0
    for batch in result.batches():
        gathered.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)
