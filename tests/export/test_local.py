"""Exports of store folders on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.scan.arrow import schema
from rmqcli.export import Layout, OutputExists, RowFilter, export_store
from rmqcli.export.output.manifest import books_of
from tests.export.support import by_place, java_rows, rows_of, table_of, write_batches
from tests.support import JavaStore


def test_every_column_of_every_record(java_store: JavaStore, tmp_path: Path) -> None:
    told: list[int] = []
    summary = export_store(java_store.root, tmp_path / "out", RowFilter(), told.append)
    expected = java_rows(java_store)
    assert summary.rows == len(expected)
    assert rows_of(tmp_path / "out") == expected
    assert sum(told) == sum(path.stat().st_size for path in java_store.commit_logs)
    made = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert made == ["_SUCCESS", "part-00000.parquet"]
    assert summary.size == (tmp_path / "out/part-00000.parquet").stat().st_size


def test_many_files_and_row_groups(store_clean: JavaStore, tmp_path: Path) -> None:
    layout = Layout(row_group_bytes=100_000, file_bytes=300_000)
    names = write_batches(store_clean.root, tmp_path / "out", RowFilter(), layout, 50)
    assert len(names) > 3
    assert by_place(rows_of(tmp_path / "out")) == java_rows(store_clean)


@pytest.mark.parametrize(
    ("rows", "takes"),
    [
        (RowFilter(topics=frozenset({"SeedTags"})), lambda row: row["topic"] == "SeedTags"),
        (RowFilter(begin=10, end=12), lambda row: 10 <= row["queue_offset"] < 12),
        (RowFilter(begin_commit_log=1_000_000), lambda row: row["commit_log_offset"] >= 1_000_000),
        (RowFilter(begin_time=1795224778500), lambda row: row["store_timestamp"] >= 1795224778500000),
        (RowFilter(end_time=1795224778500), lambda row: row["store_timestamp"] < 1795224778500000),
        (
            RowFilter(topics=frozenset({"SeedTags"}), begin=3, begin_time=1795224778100),
            lambda row: (
                row["topic"] == "SeedTags"
                and row["queue_offset"] >= 3
                and row["store_timestamp"] >= 1795224778100000
            ),
        ),
    ],
)
def test_filters(
    store_clean: JavaStore, tmp_path: Path, rows: RowFilter, takes: Callable[[dict[str, object]], bool]
) -> None:
    export_store(store_clean.root, tmp_path / "out", rows)
    expected = [row for row in java_rows(store_clean) if takes(row)]
    assert 0 < len(expected) < 3090
    assert rows_of(tmp_path / "out") == expected


def test_nothing_in_the_range_is_an_empty_file(store_clean: JavaStore, tmp_path: Path) -> None:
    summary = export_store(store_clean.root, tmp_path / "out", RowFilter(topics=frozenset({"none"})))
    assert (summary.files, summary.rows) == (1, 0)
    assert table_of(tmp_path / "out").num_rows == 0


@pytest.mark.parametrize("prepared", [False, True], ids=["new", "empty folder"])
def test_damage_leaves_nothing(
    copy_java_store: Callable[[str], JavaStore], tmp_path: Path, prepared: bool
) -> None:
    store, out = copy_java_store("store-clean"), tmp_path / "out"
    damaged = store.of_kind("msg")[2500]["phy"]
    path = store.commit_logs[damaged // 524288]
    data = bytearray(path.read_bytes())
    data[damaged % 524288 + 90] ^= 1
    path.write_bytes(data)
    if prepared:
        out.mkdir()
    with pytest.raises(CorruptionError, match=f"{path}: byte {damaged % 524288}: the CRC"):
        export_store(store.root, out, RowFilter())
    assert out.exists() is prepared
    assert not prepared or list(out.iterdir()) == []


def test_an_export_is_not_mixed_with_another(store_clean: JavaStore, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    (tmp_path / "file").touch()
    for out in ("out", "file"):
        with pytest.raises(OutputExists, match="name a new folder with --out"):
            export_store(store_clean.root, tmp_path / out, RowFilter())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_what_a_killed_export_left_is_named(store_clean: JavaStore, tmp_path: Path) -> None:
    (tmp_path / "_out.rmq" / "temporary-1").mkdir(parents=True)
    with pytest.raises(OutputExists, match=f"out: {tmp_path}/_out.rmq belongs to an export that"):
        export_store(store_clean.root, tmp_path / "out", RowFilter())


def test_an_error_of_the_writing_thread_comes_out(store_clean: JavaStore, tmp_path: Path) -> None:
    """The folder of the files is gone before the first is written."""
    out = tmp_path / "out"

    def remove_folder(size: int) -> None:
        for folder in books_of(out).glob("temporary-*"):
            folder.rmdir()

    with pytest.raises(FileNotFoundError, match=r"/temporary-.*/store-000-00000\.parquet\.tmp"):
        export_store(store_clean.root, out, RowFilter(), remove_folder, layout=Layout(row_group_bytes=1))
    assert not out.exists()


def test_the_source_is_not_changed(store_clean: JavaStore, tmp_path: Path) -> None:
    def state() -> list[tuple[str, int, int]]:
        files = sorted(path for path in store_clean.root.rglob("*") if path.is_file())
        return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]

    before = state()
    export_store(store_clean.root, tmp_path / "out", RowFilter())
    assert state() == before


def test_the_schema_is_written_down() -> None:
    assert [f"{field.name}: {field.type}" for field in schema()][:4] == [
        "topic: string",
        "broker_name: string",
        "queue_id: int32",
        "queue_offset: int64",
    ]
