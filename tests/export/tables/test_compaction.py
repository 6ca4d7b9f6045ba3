"""Small files become large ones: the same rows, the same offsets, beside readers and other exports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export.errors import TableError
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.output import compaction as merging
from rmqcli.export.output.compaction import Compacted, bins
from rmqcli.export.output.order import ORDER
from rmqcli.export.run import StoreRows
from rmqcli.export.tables.compaction import compact
from rmqcli.export.tables.naming import table_of
from tests.cli.conftest import Run
from tests.codec.samples import make_record
from tests.export.row_groups import groups, row_groups_read
from tests.export.tables.support import TOPIC, Iceberg, Lake, add_rows, expected, rows_of
from tests.s3 import Bucket, bucket, s3_address
from tests.support import JavaStore

__all__ = ["bucket", "s3_address"]

SIZE = 8 << 20


def fill(lake: Lake, store: JavaStore, ends: tuple[int | None, ...] = (100, 200, None)) -> int:
    """Adds rows in several commits; returns their number."""
    rows = 0
    for number, end in enumerate(ends):
        rows += add_rows(table_of(lake.name), rows_of(store, end=end), resume=number > 0).rows
    return rows


def live(lake: Lake) -> list[Path]:
    """Returns the files of the current version."""
    table: Any = lake._table()  # type: ignore[attr-defined]
    if isinstance(lake, Iceberg):
        return sorted(Path(one.file.file_path.removeprefix("file://")) for one in table.scan().plan_files())
    return sorted(Path(uri.removeprefix("file://")) for uri in table.file_uris())


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1, 2, 3], [[1, 2, 3]]),
        ([5, 5, 5], [[5, 5]]),  # the last one has no partner
        ([6, 1, 2], [[1, 2]]),
        ([4, 4, 4, 4], [[4, 4], [4, 4]]),
        ([6, 7], []),
        ([3], []),
    ],
)
def test_bins(sizes: list[int], expected: list[list[int]]) -> None:
    assert bins(sizes, lambda _: 0, lambda size: size, 10) == expected
    assert bins([3, 4, 3, 4], lambda size: size, lambda size: size, 10) == [[3, 3], [4, 4]]


def test_rows_and_offsets_stay(lake: Lake, store_clean: JavaStore) -> None:
    fill(lake, store_clean)
    before, files, commits = lake.rows(), live(lake), lake.commits()
    planned = compact(lake.name, SIZE, dry_run=True)
    assert (planned.files, planned.bytes_after, live(lake), lake.commits()) == (3, None, files, commits)
    done = compact(lake.name, SIZE)
    sizes = sum(file.stat().st_size for file in files), sum(file.stat().st_size for file in live(lake))
    assert done[:5] == (lake.name, 3, sizes[0], 1, sizes[1])
    assert planned[:4] == done[:4]
    assert (lake.rows(), len(live(lake)), lake.commits()) == (before, 1, commits + 1)
    assert add_rows(table_of(lake.name), rows_of(store_clean), resume=True).rows == 0
    assert compact(lake.name, SIZE)[1:4] == (0, 0, 0)


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_sorted_files(lake: Lake, store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query for one queue reads few row groups, one for an id at most another one."""
    fill(lake, store_clean)
    ids = [row["msg_id"] for row in lake.rows() if row["msg_id"]]
    monkeypatch.setattr(merging, "ROW_GROUP_BYTES", 20_000)
    compact(lake.name, SIZE)
    (file,) = live(lake)
    found = groups(file)
    assert len(found) > 10
    assert [row for group in found for row in group] == sorted(row for group in found for row in group)
    group = parquet.read_metadata(file).row_group(0)
    assert [group.column(one.column_index).path_in_schema for one in group.sorting_columns] == list(ORDER)
    queues = {place[3] for group in found for place in group}
    of_queue = sum(any(place[3] == 1 for place in group) for group in found)
    assert len(queues) > 1 and of_queue < len(found)
    assert row_groups_read([file], "queue_id = 1") == (of_queue, len(found))
    read, _ = row_groups_read([file], f"msg_id = '{ids[0]}'")
    assert 1 <= read <= len(found) // 2


def test_beside_an_export(lake: Lake, store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of both kinds that meet are repeated."""
    fill(lake, store_clean, (100, 200))
    table = table_of(lake.name)
    commit = table.commit
    done: list[Compacted] = []

    def compacted_before(*arguments: Any) -> None:
        if not done:
            done.append(compact(lake.name, SIZE))
        commit(*arguments)

    monkeypatch.setattr(table, "commit", compacted_before)
    add_rows(table, rows_of(store_clean), resume=True)
    assert (done[0].files, done[0].files_after) == (2, 1)
    places = lake.places()
    assert len(places) == len(set(places)) == add_rows_expected(store_clean)
    assert add_rows(table_of(lake.name), rows_of(store_clean), resume=True).rows == 0


def add_rows_expected(store: JavaStore) -> int:
    return sum(row["topic"] == TOPIC for row in expected(store))


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_an_export_that_is_faster(
    lake: Lake, store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmqcli.export.tables import iceberg

    fill(lake, store_clean, (100, 200))
    once = iceberg._once
    others = [200, None]

    def faster(table: Any) -> Any:
        if others and sys._getframe(1).f_code.co_name == "replace":
            others.clear()
            add_rows(table_of(lake.name), rows_of(store_clean), resume=True)
        return once(table)

    monkeypatch.setattr(iceberg, "_once", faster)
    assert compact(lake.name, SIZE)[1] == 2
    places = lake.places()
    assert len(places) == len(set(places)) == add_rows_expected(store_clean)
    assert add_rows(table_of(lake.name), rows_of(store_clean), resume=True).rows == 0
    assert len(live(lake)) == 2


KILLED = """
import os, sys
from rmqcli.export.tables import compaction, iceberg

def die(*arguments):
    os.kill(os.getpid(), 9)

iceberg.IcebergTable.replace = die
compaction.compact(sys.argv[1], 8 << 20)
"""


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_killed_before_its_commit(lake: Lake, store_clean: JavaStore) -> None:
    fill(lake, store_clean)
    before, files = lake.rows(), live(lake)
    done = subprocess.run([sys.executable, "-c", KILLED, lake.name], check=False)
    assert (done.returncode, lake.rows(), live(lake)) == (-9, before, files)
    assert compact(lake.name, SIZE).files == 3
    assert lake.rows() == before


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
@pytest.mark.parametrize("is_reached", [True, False])
def test_a_commit_whose_reply_is_lost(
    lake: Lake, store_clean: JavaStore, monkeypatch: pytest.MonkeyPatch, is_reached: bool
) -> None:
    """Its files are in the table, so they stay, also if nobody can say so."""
    from rmqcli.export.tables.iceberg import IcebergTable

    fill(lake, store_clean)
    before, replace, files = lake.rows(), IcebergTable.replace, IcebergTable.files
    is_lost = False

    def replace_unheard(table: IcebergTable, *arguments: Any) -> None:
        nonlocal is_lost
        replace(table, *arguments)
        is_lost = True
        raise TableError("the connection was reset")

    def files_of(table: IcebergTable) -> Any:
        if is_lost and not is_reached:
            raise TableError("no connection")
        return files(table)

    monkeypatch.setattr(IcebergTable, "replace", replace_unheard)
    monkeypatch.setattr(IcebergTable, "files", files_of)
    if is_reached:
        assert compact(lake.name, SIZE).files_after == 1
    else:
        with pytest.raises(TableError, match="no connection"):
            compact(lake.name, SIZE)
    assert lake.rows() == before and len(live(lake)) == 1


def test_columns_that_came_later(lake: Lake, store_clean: JavaStore) -> None:
    from rmqcli.export.output.layout import Layout

    table = table_of(lake.name)
    add_rows(table, rows_of(store_clean, end=100))
    add_rows(table_of(lake.name), rows_of(store_clean, end=200), resume=True)
    add_rows(table_of(lake.name), rows_of(store_clean), Layout(body_text=True), resume=True)
    before = lake.rows()
    assert compact(lake.name, SIZE).files_after == 1
    assert lake.rows() == before


def test_in_s3(bucket: Bucket, store_clean: JavaStore) -> None:
    name = f"delta:{bucket.folder('t')}"
    for number, end in enumerate((100, None)):
        add_rows(table_of(name), rows_of(store_clean, end=end), resume=number > 0)
    done = compact(name, SIZE)
    assert (done.files, done.files_after) == (2, 1)
    from deltalake import DeltaTable

    from rmqcli.export.tables.delta import storage_options

    found = DeltaTable(bucket.folder("t"), storage_options=storage_options()).to_pyarrow_table()
    assert pa.compute.count_distinct(found["commit_log_offset"]).as_py() == found.num_rows


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("delta:nowhere",), ExitCode.NOT_FOUND, "delta:nowhere: no such table"),
        (("lake",), ExitCode.NOT_FOUND, "lake: no export is in this folder"),
        (("delta:x", "--file-size", "2G"), ExitCode.USAGE, "--file-size 2G: expected at most 1G"),
        (("delta:x", "--file-size", "no"), ExitCode.USAGE, "--file-size no: expected a size"),
    ],
)
def test_usage(
    cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli("compact", *words)
    assert (done.code, done.out, done.err.count("\n")) == (code, b"", 1)
    assert done.err.startswith(f"rmq: {said}")


def test_report(cli: Run, lake: Lake, store_clean: JavaStore) -> None:
    fill(lake, store_clean)
    plan = cli("compact", lake.name, "--dry-run", "--json").json
    assert (plan["files"], plan["filesAfter"], plan["bytesAfter"], plan["dryRun"]) == (3, 1, None, True)
    done = cli("compact", lake.name)
    assert done.err.startswith(f"{lake.name}: 3 files (") and " became 1 (" in done.err
    assert cli("compact", lake.name).err == f"{lake.name}: no small files to merge\n"


def test_a_long_body_does_not_make_a_file_longer(lake: Lake, tmp_path: Path) -> None:
    log = tmp_path / "store/commitlog" / f"{0:020d}"
    log.parent.mkdir(parents=True)
    data = bytearray()
    for number in range(2):
        data += make_record(topic=b"T", queue_offset=number, physical_offset=len(data), body=b"z" * 1_000_000)
        log.write_bytes(data)
        wanted = [StoreRows(log.parents[1], RowFilter(broker_name="a"))]
        assert add_rows(table_of(lake.name), wanted, resume=number > 0).rows == 1
    done = compact(lake.name, SIZE)
    assert done.bytes_after is not None and done.bytes_after < done.bytes
