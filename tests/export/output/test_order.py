"""What lets readers skip rows: the order in a row group, statistics, page index and Bloom filters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from rmqcli.export import Layout, RowFilter, export_store
from rmqcli.export.output.manifest import SpanTally
from rmqcli.export.output.order import ORDER, in_order
from tests.cli.conftest import Run
from tests.codec.samples import make_record
from tests.export.row_groups import counted_by_polars, groups, log_with_ids, place, row_groups_read
from tests.export.support import java_rows, rows_of, write_batches
from tests.support import JavaStore


def test_sorted_row_groups_of_a_store(store_clean: JavaStore, tmp_path: Path) -> None:
    layout = Layout(sort=True, row_group_bytes=100_000, file_bytes=300_000)
    write_batches(store_clean.root, tmp_path / "out", RowFilter(), layout, 100)
    found = [group for file in sorted((tmp_path / "out").glob("*.parquet")) for group in groups(file)]
    assert len(found) > 5
    assert all(group == sorted(group) for group in found)
    assert sorted(rows_of(tmp_path / "out"), key=lambda row: row["commit_log_offset"]) == java_rows(
        store_clean
    )


def test_what_is_sorted_says_so(rmq: Run, topic: str, tmp_path: Path) -> None:
    """Rows of a cluster are always sorted, those of a store only if asked for."""
    rmq("send", topic, stdin=b"x\n" * 40)
    rmq("export", "--topic", topic, "--out", str(tmp_path / "out"))
    file = tmp_path / "out/part-00000.parquet"
    group = parquet.read_metadata(file).row_group(0)
    said = [group.column(one.column_index).path_in_schema for one in group.sorting_columns]
    assert said == list(ORDER)
    (places,) = groups(file)
    assert places == sorted(places)
    assert len({found[3] for found in places}) > 1


def test_rows_of_a_store_stay_as_they_are(store_clean: JavaStore, tmp_path: Path) -> None:
    export_store(store_clean.root, tmp_path / "out", RowFilter())
    assert rows_of(tmp_path / "out") == java_rows(store_clean)
    assert not parquet.read_metadata(tmp_path / "out/part-00000.parquet").row_group(0).sorting_columns


@pytest.mark.parametrize("by", [(), ("topic",)])
def test_the_order_is_declared_as_far_as_its_columns_are_there(
    store_clean: JavaStore, tmp_path: Path, by: tuple[str, ...]
) -> None:
    layout = Layout(by, sort=True, columns=("keys", "topic", "broker_name", "queue_id", "msg_id"))
    rows = RowFilter(topics=frozenset({"SeedTags"}))
    export_store(store_clean.root, tmp_path / "out", rows, layout=layout)
    (file,) = (tmp_path / "out").rglob("*.parquet")
    group = parquet.read_metadata(file).row_group(0)
    said = [group.column(one.column_index).path_in_schema for one in group.sorting_columns]
    assert said == [name for name in ORDER[:3] if name not in by]


@pytest.mark.parametrize("queues", [[0, 0, 0, 0], [1, 0, 1, 0], list(range(80))])
def test_offsets_that_do_not_ascend(queues: list[int], tmp_path: Path) -> None:
    """Such as those of a topic that was created again; also with many queues in a batch."""
    from rmqcli.codec.scan.arrow import scan_batches

    data = b""
    for number, queue in enumerate([*queues, *queues]):
        offset = 1000 - number if number < 4 else number
        data += make_record(queue_id=queue, queue_offset=offset, physical_offset=len(data))
    batches = list(scan_batches(data, encoded=True, batch_rows=len(queues)))
    table = in_order(batches)
    places = list(map(place, table.select(list(ORDER)).to_pylist()))
    assert places == sorted(places)
    tally = SpanTally(of_store=True)
    tally.add(table)
    assert sum(span.rows for span in tally.spans) == len(places) == 2 * len(queues)


def test_row_groups_that_readers_skip(tmp_path: Path) -> None:
    ids = log_with_ids(tmp_path / "store", 3000, 4)
    layout = Layout(row_group_bytes=60_000, bloom_filters=("msg_id", "keys"))
    write_batches(tmp_path / "store", tmp_path / "out", RowFilter(), layout, 100)
    (file,) = (tmp_path / "out").glob("*.parquet")
    count = parquet.read_metadata(file).num_row_groups
    assert count > 10
    moment = "timestamptz '2026-11-21 01:50:00Z'"
    for condition, most in (
        (f"msg_id = '{ids[1500]}'", 3),  # a false positive is possible
        (f"store_timestamp = {moment}", 1),
        (f"store_timestamp > {moment} and commit_log_offset > 0", count - 5),
    ):
        read, every = row_groups_read([file], condition)
        assert (1 <= read <= most, every) == (True, count), condition
    fragments = parquet_fragments(file, pa.compute.field("queue_offset") == 10)
    assert fragments == 1
    group = parquet.read_metadata(file).row_group(0)
    columns = {group.column(number).path_in_schema: group.column(number) for number in range(20)}
    for name in ("queue_id", "queue_offset", "store_timestamp", "msg_id", "tags"):
        assert columns[name].has_column_index and columns[name].has_offset_index, name
    filtered = [name for name, column in columns.items() if column.bloom_filter_offset]
    assert filtered == ["msg_id", "keys.list.element"]


def parquet_fragments(file: Path, condition: Any) -> int:
    """Returns the number of row groups that pyarrow reads."""
    from pyarrow.dataset import ParquetFileFormat, dataset

    found = dataset(file, format=ParquetFileFormat()).get_fragments(filter=condition)
    return sum(len(fragment.split_by_row_group(condition)) for fragment in found)


def test_row_groups_that_polars_skips(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import polars

    log_with_ids(tmp_path / "store", 3000, 4)
    write_batches(tmp_path / "store", tmp_path / "out", RowFilter(), Layout(row_group_bytes=60_000), 100)
    (file,) = (tmp_path / "out").glob("*.parquet")
    count = parquet.read_metadata(file).num_row_groups
    assert count > 10
    for name, value in (
        ("queue_offset", 10),
        ("store_timestamp", datetime(2026, 11, 21, 1, 50, tzinfo=UTC)),
        ("commit_log_offset", 0),
    ):
        query = polars.scan_parquet(file).filter(polars.col(name) == value).select("body")
        assert counted_by_polars(query, "reading N / M row groups", capfd) == (1, count), name


def test_without_bloom_filters(tmp_path: Path, cli: Run) -> None:
    log_with_ids(tmp_path / "store", 10, 1)
    words = ("--store", str(tmp_path / "store"), "--bloom-filter", "none")
    assert cli("export", *words, "--out", str(tmp_path / "out")).code == 0
    group = parquet.read_metadata(tmp_path / "out/part-00000.parquet").row_group(0)
    assert not any(group.column(number).bloom_filter_offset for number in range(group.num_columns))
    wrong = cli("export", *words[:3], "tags", "--out", str(tmp_path / "other"))
    assert "--bloom-filter tags: expected one of msg_id, offset_msg_id, keys" in wrong.err


def test_a_version_that_cannot_write_bloom_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_clean: JavaStore
) -> None:
    from rmqcli.export.output import parquet as written

    whole: Callable[..., Any] = parquet.ParquetWriter

    def older(*arguments: Any, **options: Any) -> Any:
        assert "bloom_filter_options" not in options
        return whole(*arguments, **options)

    monkeypatch.setattr(written, "_CAN_FILTER", False)
    monkeypatch.setattr(parquet, "ParquetWriter", older)
    export_store(store_clean.root, tmp_path / "out", RowFilter())
    assert len(rows_of(tmp_path / "out")) == len(java_rows(store_clean))
