"""Statistics of data files: what a reader leaves out by them does not match."""

from __future__ import annotations

import json

import pyarrow as pa
from pyarrow import parquet

from rmqcli.export.tables.delta import statistics

MOMENT = pa.timestamp("us", tz="UTC")


def said(table: pa.Table, rows_per_group: int) -> dict[str, dict[str, object]]:
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, row_group_size=rows_per_group, store_schema=False)
    found: dict[str, dict[str, object]] = json.loads(statistics(parquet.read_metadata(sink.getvalue())))
    return found


def test_bounds_of_all_row_groups() -> None:
    table = pa.table(
        {
            "n": pa.array([7, None, -3, 5], pa.int32()),
            "t": pa.array([1_795_224_776_000_001, 1_795_224_776_999_999, 5, 6], MOMENT),
            "text": ["a", "b", "c", "d"],
            "list": [[1], [2], [3], [4]],
        }
    )
    assert said(table, 2) == {
        "numRecords": 4,
        "minValues": {"n": -3, "t": "1970-01-01T00:00:00.000Z"},
        "maxValues": {"n": 7, "t": "2026-11-21T01:32:57.000Z"},
        "nullCount": {"n": 1, "t": 0},
    }


def test_times_without_a_text_and_columns_without_values() -> None:
    table = pa.table({"t": pa.array([2**62], MOMENT), "n": pa.array([None], pa.int64())})
    assert said(table, 1)["minValues"] == {}
    assert said(table.slice(0, 0), 1) == {"numRecords": 0, "minValues": {}, "maxValues": {}, "nullCount": {}}
