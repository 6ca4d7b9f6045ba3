"""Rows and offsets of real tables, read by the libraries of the formats."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from rmqcli.export.errors import TableError, TableMismatch
from rmqcli.export.local import write_stores
from rmqcli.export.output.layout import Layout
from rmqcli.export.run import stores_origin
from rmqcli.export.tables.naming import table_of
from rmqcli.export.tables.run import attempts
from tests.export.row_groups import counted_by_polars
from tests.export.tables.support import TOPIC, DeltaLake, Iceberg, Lake, add_rows, expected, rows_of
from tests.support import JavaStore


def test_a_whole_store_is_the_dump(lake: Lake, store_clean: JavaStore) -> None:
    """Names of topics with % and | included."""
    wanted = rows_of(store_clean, topics=frozenset())
    summary = add_rows(table_of(lake.name), wanted)
    assert lake.rows() == expected(store_clean)
    assert (summary.out, summary.rows, lake.commits()) == (lake.name, 3090, 1)
    assert (add_rows(table_of(lake.name), wanted, resume=True).rows, lake.commits()) == (0, 1)


def test_partitions_and_statistics_find_rows(lake: Lake, store_clean: JavaStore) -> None:
    add_rows(table_of(lake.name), rows_of(store_clean, topics=frozenset({TOPIC, "SeedTags"})))
    rows = [row for row in expected(store_clean) if row["topic"] in (TOPIC, "SeedTags")]
    assert lake.matching("topic", "=", "SeedTags") == 300
    assert lake.matching("queue_offset", ">", 370) == sum(row["queue_offset"] > 370 for row in rows)
    middle = sorted(row["store_timestamp"] for row in rows)[700]
    moment = pa.scalar(middle, pa.timestamp("us", tz="UTC")).as_py()
    assert lake.matching("store_timestamp", ">=", moment) == sum(
        row["store_timestamp"] >= middle for row in rows
    )


def test_files_that_polars_leaves_out(
    lake: Lake, store_clean: JavaStore, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the statistics in the log of Delta, and in the manifests of Iceberg."""
    import polars

    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # the other one is a package of its own
    for end in (100, 200, None):
        add_rows(table_of(lake.name), rows_of(store_clean, end=end), resume=True)
    assert len(lake.data_files()) == 3
    moments = sorted(row["store_timestamp"] for row in lake.rows() if row["queue_offset"] >= 200)
    latest = pa.scalar(moments[-1], pa.timestamp("us", tz="UTC")).as_py()
    for name, value in (("queue_offset", 150), ("store_timestamp", latest)):
        query = lake.polars().filter(polars.col(name) == value).select("body")
        skipped, found = counted_by_polars(query, "skipping N / M files", capfd)
        assert found - skipped == 1, name  # pyiceberg names only the files that are left


def test_partitions_by_hour(lake: Lake, store_clean: JavaStore) -> None:
    wanted = rows_of(store_clean)
    add_rows(table_of(lake.name, "hour"), wanted, Layout(partition_by=("hour",)))
    rows = [row for row in expected(store_clean) if row["topic"] == TOPIC]
    assert lake.rows() == rows
    hours = {
        datetime.fromtimestamp(row["store_timestamp"] / 1e6, UTC).strftime("%Y-%m-%d-%H") for row in rows
    }
    found = {part.partition("=")[2] for file in lake.data_files() for part in file.parts if "hour=" in part}
    assert found == hours
    with pytest.raises(TableMismatch, match="partitioned by hour"):
        add_rows(table_of(lake.name), wanted, resume=True)


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_store_that_grew(copy_java_store: Callable[[str], JavaStore], lake: Lake) -> None:
    store = copy_java_store("store-clean")
    hidden = {path: path.read_bytes() for path in store.commit_logs[1:]}
    for path in hidden:
        path.unlink()
    wanted = rows_of(store, topics=frozenset(), check_crc=False)
    table = table_of(lake.name)
    counts = [add_rows(table, wanted).rows]
    for path, data in hidden.items():
        path.write_bytes(data)
    counts += [add_rows(table, wanted, resume=True).rows for _ in range(2)]
    assert (counts[0] > 0, counts[1] > 0, counts[2], lake.commits()) == (True, True, 0, 2)
    assert lake.rows() == expected(store)


def test_columns_are_only_added(lake: Lake, store_clean: JavaStore) -> None:
    narrow, wide = Layout(columns=("queue_id", "queue_offset", "body")), Layout(body_text=True)
    table = table_of(lake.name)
    add_rows(table, rows_of(store_clean, end=10), narrow)
    add_rows(table, rows_of(store_clean, end=20), wide, resume=True)
    add_rows(table, rows_of(store_clean, end=30), narrow, resume=True)
    rows = lake.arrow()
    assert (rows.num_rows, rows["body_text"].null_count, rows["msg_id"].null_count) == (120, 80, 80)
    assert rows["body"].null_count == rows["store_timestamp"].null_count == 0


@pytest.mark.parametrize(
    ("columns", "partitions", "said"),
    [
        ({"queue_id": pa.string()}, ("day", "topic"), "column queue_id is string and would become int32"),
        ({}, ("topic",), r"is partitioned by .*topic.*, not by"),
    ],
)
def test_a_table_that_is_not_like_the_export(
    lake: Lake,
    store_clean: JavaStore,
    columns: dict[str, pa.DataType],
    partitions: tuple[str, ...],
    said: str,
) -> None:
    lake.create(columns, partitions)
    with pytest.raises(TableMismatch, match=said):
        add_rows(table_of(lake.name), rows_of(store_clean), resume=True)
    assert lake.data_files() == []


def test_a_restored_table_goes_on_where_its_rows_end(lake: Lake, store_clean: JavaStore) -> None:
    table = table_of(lake.name)
    add_rows(table, rows_of(store_clean, end=10))
    add_rows(table, rows_of(store_clean, end=20), resume=True)
    lake.restore_first()
    assert len(lake.places()) == 40
    add_rows(table, rows_of(store_clean, end=20), resume=True)
    assert lake.places() == [(TOPIC, queue, offset) for queue in range(4) for offset in range(20)]


@pytest.mark.parametrize("exports", [False, True], ids=["optimizer", "export"])
def test_others_commit_while_rows_are_written(lake: Lake, store_clean: JavaStore, exports: bool) -> None:
    """Another export of the same messages is noticed; what it has added is not added again."""

    def other() -> None:
        if exports:
            add_rows(table_of(lake.name), rows_of(store_clean, end=50), resume=True)
        else:
            lake.compact()

    wanted, others = rows_of(store_clean), [other]
    table = table_of(lake.name)
    add_rows(table, rows_of(store_clean, end=10))
    for run in attempts(table, stores_origin(wanted), Layout(), resume=True):
        with run:
            while others:
                others.pop()()
            write_stores(wanted, run)
            break
    assert lake.rows() == [row for row in expected(store_clean) if row["topic"] == TOPIC]
    assert lake.commits() == 3


def test_offsets_do_not_fade(lake: Lake, store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old versions expire: where others have committed, the offsets are committed again from time to time."""
    wanted, table = rows_of(store_clean), table_of(lake.name)
    add_rows(table, wanted)
    lake.compact()
    counts = [(add_rows(table, wanted, resume=True).rows, lake.commits())]
    monkeypatch.setattr(f"rmqcli.export.tables.{lake.kind}.REFRESH_MS", -1)
    counts += [(add_rows(table, wanted, resume=True).rows, lake.commits()) for _ in range(2)]
    assert counts == [(0, 2), (0, 3), (0, 3)]
    assert len(lake.rows()) == 1500


KILLED = """
import os, sys
from pathlib import Path
from rmqcli.export import Layout, RowFilter, StoreRows
from rmqcli.export.local import write_stores
from rmqcli.export.output.parquet import ParquetFiles
from rmqcli.export.run import stores_origin
from rmqcli.export.tables.naming import table_of
from rmqcli.export.tables.run import TableRun

place, left = sys.argv[3], int(sys.argv[4])
table = table_of(sys.argv[2])

def killing(function):
    def call(*arguments, **named):
        global left
        if left == 0:
            os.kill(os.getpid(), 9)
        left -= 1
        return function(*arguments, **named)
    return call

if place == "write":
    ParquetFiles._write_group = killing(ParquetFiles._write_group)
else:
    table.commit = killing(table.commit)
    if place == "committed":
        commit = table.commit
        def committed(*arguments):
            commit(*arguments)
            os.kill(os.getpid(), 9)
        table.commit, left = committed, 1
layout = Layout(row_group_bytes=20_000, file_bytes=40_000)
rows = RowFilter(topics=frozenset({"SeedNormal"}), only_queued=True, broker_name="broker-a")
wanted = [StoreRows(Path(sys.argv[1]), rows)]
with TableRun(table, stores_origin(wanted), layout, resume=True) as run:
    write_stores(wanted, run)
"""


@pytest.mark.parametrize(
    ("lake", "place", "count"),
    [("delta", "write", 2), ("iceberg", "commit", 0), ("delta", "committed", 0)],
    indirect=["lake"],
)
def test_killed_anywhere(lake: Lake, store_clean: JavaStore, place: str, count: int) -> None:
    """Between two files, before the commit and after it: all rows are there once."""
    table = table_of(lake.name)
    add_rows(table, rows_of(store_clean, end=10))
    command = [sys.executable, "-c", KILLED, str(store_clean.root), lake.name, place, str(count)]
    assert subprocess.run(command, check=False).returncode == -9
    assert len(lake.places()) == (1500 if place == "committed" else 40)
    assert len(lake.data_files()) > 2
    assert (sum(path.suffix == ".parquet" for path in lake.data_files()) == 1) is (place == "write")
    add_rows(table, rows_of(store_clean), resume=True)
    assert lake.rows() == [row for row in expected(store_clean) if row["topic"] == TOPIC]


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_snapshots_that_held_the_offsets_and_expired(lake: Iceberg, store_clean: JavaStore) -> None:
    add_rows(table_of(lake.name), rows_of(store_clean, end=10))
    lake.compact()
    lake.expire_first()
    with pytest.raises(TableError, match="holds rows of an export, but no snapshot has its offsets"):
        add_rows(table_of(lake.name), rows_of(store_clean), resume=True)


def test_a_log_that_lost_the_offsets(tmp_path: Path, store_clean: JavaStore) -> None:
    lake = DeltaLake(tmp_path)
    from deltalake import CommitProperties, DeltaTable

    add_rows(table_of(lake.name), rows_of(store_clean, end=10))
    found = DeltaTable(f"{lake.folder}/t")
    found.alter.set_table_properties({"delta.appendOnly": "false"}, commit_properties=CommitProperties())
    found.create_checkpoint()
    (lake.folder / "t/_delta_log/00000000000000000000.json").unlink()
    with pytest.raises(TableError, match="its log goes back to version 1 only, and no commit since then has"):
        add_rows(table_of(lake.name), rows_of(store_clean), resume=True)


def test_files_by_the_streams_of_a_storage(tmp_path: Path, store_clean: JavaStore) -> None:
    """As for s3://, with the storage that delta-rs has for a folder."""
    lake = DeltaLake(tmp_path)
    (tmp_path / "t").mkdir()
    from rmqcli.export.tables.delta import DeltaTable, StoragePlace

    class Remote(DeltaTable):
        place = StoragePlace(f"file://{lake.folder}/t", lake.name)

    add_rows(Remote(f"{lake.folder}/t"), rows_of(store_clean))
    assert lake.rows() == [row for row in expected(store_clean) if row["topic"] == TOPIC]
