"""Row groups of Parquet files, and those that a query reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
from pyarrow import parquet

from rmqcli.export.output.order import ORDER


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    broker = row["broker_name"]
    return row["topic"].encode(), broker is None, broker or "", row["queue_id"], row["queue_offset"]


def groups(file: Path) -> list[list[tuple[Any, ...]]]:
    """Returns the places of the rows of each row group."""
    opened = parquet.ParquetFile(file)
    found = (opened.read_row_group(number, columns=list(ORDER)) for number in range(opened.num_row_groups))
    return [list(map(place, table.to_pylist())) for table in found]


def row_groups_read(files: list[Path], condition: str) -> tuple[int, int]:
    """Returns how many row groups DuckDB reads for a query, and how many there are."""
    query = f"select count(body) from read_parquet({[str(file) for file in files]}) where {condition}"
    with duckdb.connect() as connection:
        (found,) = connection.sql(f"explain (analyze, format json) {query}").fetchall()
    query_facts = json.loads(found[1])["query"]
    return int(query_facts["total_row_groups_scanned"]), int(query_facts["total_row_groups_to_scan"])
