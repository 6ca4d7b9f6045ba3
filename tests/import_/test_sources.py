"""The files of a source: of a Delta table those of its current version."""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

from rmqcli.export.errors import TableNotFound
from rmqcli.import_ import parquet as reading
from rmqcli.import_.rows import InputError, InputFile
from rmqcli.import_.sources import read_rows, source_of


def add(path: Path, bodies: list[bytes], **options: Any) -> None:
    days = ["2026-11-21"] * len(bodies)
    table = pa.table({"body": bodies, "tags": ["a"] * len(bodies), "day": days})
    write_deltalake(str(path), table, mode="append", **options)


def bodies(path: Path) -> list[bytes]:
    return [
        row.message.body  # type: ignore[union-attr]
        for file in source_of(str(path)).files
        for row in read_rows(file, "T")
    ]


def test_rows_that_the_table_has_no_more(tmp_path: Path) -> None:
    """The files of old versions, before a deletion and a compaction, stay in the folder."""
    lake = tmp_path / "lake"
    add(lake, [b"1", b"2"], partition_by=["day"])
    add(lake, [b"3"])
    assert sorted(bodies(lake)) == [b"1", b"2", b"3"]
    DeltaTable(str(lake)).delete("body = X'32'")
    DeltaTable(str(lake)).optimize.compact()
    assert sorted(bodies(lake)) == [b"1", b"3"]
    assert len(list(lake.rglob("*.parquet"))) > len(source_of(str(lake)).files) == 1
    assert source_of(str(lake)).listed == {file.name for file in source_of(str(lake)).files}


def test_tables_that_are_refused(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    add(lake, [b"1"], partition_by=["tags"])
    with pytest.raises(InputError, match="is partitioned by tags, so its files lack that column"):
        source_of(str(lake))
    for number, (name, value) in enumerate(
        [("delta.enableDeletionVectors", "true"), ("delta.columnMapping.mode", "name")]
    ):
        add(tmp_path / f"{number}", [b"1"], configuration={name: value})
        with pytest.raises(InputError, match="has deletion vectors, delete files or renamed columns"):
            source_of(str(tmp_path / f"{number}"))
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/1.metadata.json").write_text("{}")
    with pytest.raises(InputError, match="is an Iceberg table"):
        source_of(str(tmp_path))
    (tmp_path / "broken/_delta_log").mkdir(parents=True)
    with pytest.raises(TableNotFound, match=r"broken: no such table"):
        source_of(str(tmp_path / "broken"))


def test_one_row_group_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BATCH_ROWS", 50)
    table = pa.table({"body": [secrets.token_bytes(10_000) for _ in range(2000)]})
    options: dict[str, Any] = {"row_group_size": 100, "use_dictionary": False, "compression": "none"}
    parquet.write_table(table, tmp_path / "a.parquet", **options)
    del table
    before = pa.total_allocated_bytes()
    file = InputFile("a.parquet", partial(pa.OSFile, str(tmp_path / "a.parquet")))
    most = max(pa.total_allocated_bytes() - before for _ in read_rows(file, "T"))
    assert 1_000_000 < most < 4_000_000  # of 20 MB
