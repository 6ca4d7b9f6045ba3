"""Parquet of other writers: each Arrow type is read as what it is, or refused by the name of its column."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.message import Message
from rmqcli.import_.rows import ImportFailed, ImportRow, count_rows, local_file
from rmqcli.import_.sources import read_rows
from tests.cli.conftest import Run

MAP = pa.map_(pa.string(), pa.string())
BODY = pa.array(["b"])
MOMENT = datetime(2020, 1, 1, tzinfo=UTC)


def rows_of(folder: Path, columns: dict[str, Any]) -> list[ImportRow]:
    path = folder / "a.parquet"
    parquet.write_table(pa.table(columns), path)
    return list(read_rows(local_file("a.parquet", path), "T"))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"body": pa.array([b"b"], pa.large_binary())}, {}),
        ({"body": pa.array([b"b"], pa.binary(1))}, {}),
        ({"body": BODY.dictionary_encode()}, {}),
        ({"body": pa.array([None], pa.binary()), "body_text": BODY}, {}),
        ({"body": BODY, "tags": pa.array(["t"]).dictionary_encode()}, {"TAGS": "t"}),
        ({"body": BODY, "keys": pa.array(["one two"])}, {"KEYS": "one two"}),
        ({"body": BODY, "keys": pa.array([["one", "two"]], pa.large_list(pa.string()))}, {"KEYS": "one two"}),
        ({"body": BODY, "properties": pa.array([{"k": "v", "n": None}])}, {"k": "v"}),
        ({"body": BODY, "properties": pa.array([[("k", "v"), ("n", None)]], MAP)}, {"k": "v"}),
        ({"body": BODY, "properties": pa.array([None], MAP), "tags": pa.nulls(1), "flag": pa.nulls(1)}, {}),
        (
            {"body": BODY, "properties": pa.array([[("k", "v")]], MAP), "tags": pa.array(["t"])},
            {"k": "v", "TAGS": "t"},
        ),
        (
            {"body": BODY, "born_timestamp": pa.array([MOMENT]), "store_timestamp": pa.array([7])},
            {"ORIGINAL_BORN_TIMESTAMP": "1577836800000", "ORIGINAL_STORE_TIMESTAMP": "7"},
        ),
        (
            {
                "body": BODY,
                "born_timestamp": pa.array([1577836800]),
                "store_timestamp": pa.array([1577836800], pa.timestamp("ms")),
            },
            {"ORIGINAL_BORN_TIMESTAMP": "1577836800000", "ORIGINAL_STORE_TIMESTAMP": "1577836800"},
        ),
    ],
)
def test_types_that_mean_something(tmp_path: Path, columns: dict[str, Any], expected: dict[str, str]) -> None:
    (row,) = rows_of(tmp_path, columns)
    assert isinstance(row.message, Message)
    assert (row.message.body, row.message.properties, row.message.flag) == (b"b", expected, 0)


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("body", [1], "is int64: expected bytes or text"),
        ("body", [{"a": 1}], "is struct<a: int64>: expected bytes or text"),
        ("tags", [5], "is int64: expected text"),
        ("tags", [["a"]], "is list<element: string>: expected text"),
        ("keys", [[1]], "is list<element: int64>: expected text or a list of texts"),
        ("properties", ['{"a":"b"}'], "is string: expected a map or struct of texts"),
        ("properties", [{"a": 1}], "is struct<a: int64>: expected a map or struct of texts"),
        ("flag", ["1"], "is string: expected a whole number"),
        ("queue_id", ["zero"], "is string: expected a whole number"),
        ("born_timestamp", ["yesterday"], "is string: expected a timestamp or epoch milliseconds"),
        ("store_timestamp", [MOMENT.date()], "is date32[day]: expected a timestamp or epoch milliseconds"),
    ],
)
def test_types_that_do_not(tmp_path: Path, name: str, column: list[Any], said: str) -> None:
    (row,) = rows_of(tmp_path, {"body": BODY, name: pa.array(column)})
    assert isinstance(row.message, ImportFailed)
    assert str(row.message) == f"column {name} {said}"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"properties": pa.array([[("a\1", "b")]], MAP)}, r"property 'a\x01': name and value"),
        ({"properties": pa.array([[("a", "")]], MAP)}, "property 'a': name and value"),
        ({"flag": [1 << 40]}, "flag is not a 32-bit number"),
        ({"keys": [["one two"]]}, "a key contains a space"),
        ({"body": pa.nulls(1)}, "the body is missing"),
    ],
)
def test_values_that_make_no_message(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    (row,) = rows_of(tmp_path, {"body": BODY, **columns})
    assert isinstance(row.message, ImportFailed)
    assert str(row.message).startswith(said)


def test_the_command_names_the_column(rmq: Run, topic: str, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"body": ["b"], "tags": [5]}), tmp_path / "a.parquet")
    result = rmq("import", str(tmp_path / "a.parquet"), "--topic", topic)
    assert result.code == ExitCode.USAGE
    assert "rmq: not sent: a.parquet: row 1: column tags is int64: expected text\n" in result.err


def test_how_many_rows_there_are(tmp_path: Path) -> None:
    files = []
    for number in (2, 3):
        path = tmp_path / f"{number}.parquet"
        files.append(local_file(path.name, path))
        parquet.write_table(pa.table({"body": ["b"] * number}), path)
    assert count_rows(files) == 5
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    assert count_rows([*files, local_file("broken.parquet", tmp_path / "broken.parquet")]) is None
    assert count_rows([*files, local_file("lines.jsonl", tmp_path / "lines.jsonl")]) is None
