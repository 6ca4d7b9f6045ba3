"""The files of a source: of a Delta table those of its current version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rmqcli.import_.rows import InputError, read_rows
from rmqcli.import_.sources import source_of


def add(path: Path, bodies: list[bytes], **options: Any) -> None:
    days = ["2026-11-21"] * len(bodies)
    table = pa.table({"body": bodies, "tags": ["a"] * len(bodies), "day": days})
    write_deltalake(str(path), table, mode="append", **options)


def bodies(path: Path) -> list[bytes]:
    return [
        row.message.body  # type: ignore[union-attr]
        for name, file in source_of(path).files
        for row in read_rows(name, file, "T")
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
    assert len(list(lake.rglob("*.parquet"))) > len(source_of(lake).files) == 1
    assert source_of(lake).listed == [name for name, _ in source_of(lake).files]


def test_tables_that_are_refused(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    add(lake, [b"1"], partition_by=["tags"])
    with pytest.raises(InputError, match="is partitioned by tags, so its files lack that column"):
        source_of(lake)
    for number, (name, value) in enumerate(
        [("delta.enableDeletionVectors", "true"), ("delta.columnMapping.mode", "name")]
    ):
        add(tmp_path / f"{number}", [b"1"], configuration={name: value})
        with pytest.raises(InputError, match="has deletion vectors or renamed columns"):
            source_of(tmp_path / f"{number}")
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/1.metadata.json").write_text("{}")
    with pytest.raises(InputError, match="is an Iceberg table"):
        source_of(tmp_path)
    (tmp_path / "broken/_delta_log").mkdir(parents=True)
    with pytest.raises(InputError, match=r"broken: .+"):
        source_of(tmp_path / "broken")
