"""Row groups of Parquet files, and those that a query reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyarrow import parquet

from rmqcli.export.output.order import ORDER
from tests.codec.samples import make_record


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    broker = row["broker_name"]
    return row["topic"].encode(), broker is None, broker or "", row["queue_id"], row["queue_offset"]


def groups(file: Path) -> list[list[tuple[Any, ...]]]:
    """Returns the places of the rows of each row group."""
    opened = parquet.ParquetFile(file)
    found = (opened.read_row_group(number, columns=list(ORDER)) for number in range(opened.num_row_groups))
    return [list(map(place, table.to_pylist())) for table in found]


def log_with_ids(store: Path, count: int, queues: int) -> list[str]:
    """Writes records in turn to queues, a second apart, with ids that do not ascend, so that only a Bloom filter
    finds the row group of an id. Returns the ids.
    """
    ids = [f"{number * 7919 % count:032X}" for number in range(count)]
    data = bytearray()
    for number, name in enumerate(ids):
        data += make_record(
            topic=b"T",
            queue_id=number % queues,
            queue_offset=number // queues,
            physical_offset=len(data),
            store_timestamp=1_795_224_776_000 + number * 1000,
            properties=b"UNIQ_KEY\x01" + name.encode() + b"\x02KEYS\x01key-%d" % number,
            body=b"x" * 100,
        )
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / f"{0:020d}").write_bytes(data)
    return ids


def row_groups_read(files: list[Path], condition: str) -> tuple[int, int]:
    """Returns how many row groups DuckDB reads for a query, and how many there are."""
    query = f"select count(body) from read_parquet({[str(file) for file in files]}) where {condition}"
    with duckdb.connect() as connection:
        (found,) = connection.sql(f"explain (analyze, format json) {query}").fetchall()
    query_facts = json.loads(found[1])["query"]
    return int(query_facts["total_row_groups_scanned"]), int(query_facts["total_row_groups_to_scan"])


def counted_by_polars(query: Any, words: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, int]:
    """Returns the two numbers that Polars says with these words while it runs a query, over all files.

    The words have N and M in place of the numbers.
    """
    import polars

    capfd.readouterr()
    with polars.Config(verbose=True):
        query.collect()
    pattern = words.replace("N", r"(\d+)").replace("M", r"(\d+)")
    pairs = re.findall(pattern, capfd.readouterr().err)
    return sum(int(one) for one, _ in pairs), sum(int(other) for _, other in pairs)


def rows_read_by_spark(frame: Any) -> int:
    """Returns the number of rows that the scan of a data frame hands to its filter: those of the row groups
    and pages that it does not skip.
    """
    frame.collect()
    scans = frame._jdf.queryExecution().executedPlan().collectLeaves()
    metrics = [scans.apply(number).metrics() for number in range(scans.size())]
    return sum(int(one.apply("numOutputRows").value()) for one in metrics)
