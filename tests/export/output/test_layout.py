"""Folders, columns and sizes of an export; other readers can read it as a whole."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import parquet

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export import Layout, LayoutError, RowFilter, export_store
from tests.cli.conftest import Run
from tests.export.support import Row, java_rows, write_batches
from tests.support import JavaStore


def hive(out: Path) -> pa.Table:
    """Reads an export as other tools do: partitions become columns."""
    return ds.dataset(out, partitioning="hive").to_table()


def expected_folder(row: Row, keys: tuple[str, ...]) -> str:
    hour = datetime.fromtimestamp(row["store_timestamp"] / 1e6, UTC).strftime("%Y-%m-%d-%H")
    topic = str(row["topic"]).replace("%", "%25")
    values = {"topic": topic, "day": hour[:-3], "hour": hour, "queue": str(row["queue_id"])}
    return "/".join(f"{key}={values[key]}" for key in keys)


@pytest.mark.parametrize(
    "keys", [("topic",), ("day",), ("hour", "topic"), ("queue",), ("day", "topic", "queue")]
)
def test_partitions(java_store: JavaStore, tmp_path: Path, keys: tuple[str, ...]) -> None:
    export_store(java_store.root, tmp_path, RowFilter(), layout=Layout(partition_by=keys))
    expected: dict[str, list[int]] = {}
    for row in java_rows(java_store):
        expected.setdefault(expected_folder(row, keys), []).append(row["commit_log_offset"])
    found: dict[str, list[int]] = {}
    for path in sorted(tmp_path.rglob("*.parquet")):
        rows = parquet.ParquetFile(path).read(["commit_log_offset"]).to_pydict()
        found.setdefault(str(path.parent.relative_to(tmp_path)), []).extend(rows["commit_log_offset"])
    assert found == expected
    table = hive(tmp_path)
    assert set(keys) <= set(table.column_names)
    assert table.num_rows == sum(map(len, expected.values()))


def test_few_open_partitions_and_little_memory(store_clean: JavaStore, tmp_path: Path) -> None:
    layout = Layout(("topic", "queue"), open_partitions=2, gathered_bytes=20_000)
    names = write_batches(store_clean.root, tmp_path, RowFilter(), layout, 50)
    offsets = hive(tmp_path)["commit_log_offset"].to_pylist()
    assert sorted(offsets) == [row["commit_log_offset"] for row in java_rows(store_clean)]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(names) == sorted(str(path.relative_to(tmp_path)) for path in files)


def test_columns_and_body_text(store_clean: JavaStore, tmp_path: Path) -> None:
    layout = Layout(columns=("body", "msg_id"), body_text=True)
    export_store(store_clean.root, tmp_path, RowFilter(), layout=layout)
    table = parquet.read_table(tmp_path)
    assert table.column_names == ["msg_id", "body", "body_text"]
    for body, text in zip(table["body"].to_pylist(), table["body_text"].to_pylist(), strict=True):
        try:
            assert text == body.decode()
        except UnicodeDecodeError:
            assert text is None
    assert table["body_text"].null_count < table.num_rows


def test_body_text_of_bodies_that_are_no_text() -> None:
    import msgspec

    from rmqcli.export.from_topic.batches import to_batch
    from tests.export.topics import message

    bodies = [b"ok", b"\xff", "ü".encode(), b""]
    batch = to_batch([msgspec.structs.replace(message(0), body=body) for body in bodies])
    assert Layout(body_text=True).shape(batch)["body_text"].to_pylist() == ["ok", None, "ü", ""]


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "brotli", "none"])
def test_compressions(store_clean: JavaStore, tmp_path: Path, compression: str) -> None:
    export_store(
        store_clean.root,
        tmp_path,
        RowFilter(topics=frozenset({"SeedTags"})),
        layout=Layout(compression=compression),
    )
    column = parquet.read_metadata(tmp_path / "part-00000.parquet").row_group(0).column(0)
    assert column.compression.lower() == {"none": "uncompressed"}.get(compression, compression)


def test_what_files_say_of_themselves(store_clean: JavaStore, tmp_path: Path) -> None:
    export_store(store_clean.root, tmp_path, RowFilter(topics=frozenset({"SeedTags"})))
    rows = [row for row in java_rows(store_clean) if row["topic"] == "SeedTags"]
    said = parquet.read_metadata(tmp_path / "part-00000.parquet").metadata
    assert said[b"rmq.source"].decode() == str(store_clean.root)
    assert said[b"rmq.version"]
    last = rows[-1]
    assert int(said[b"rmq.commit_log_end"]) == last["commit_log_offset"] + last["store_size"]
    spans = json.loads(said[b"rmq.offsets"])
    assert sum(span["rows"] for span in spans) == len(rows)
    for span in spans:
        offsets = [row["queue_offset"] for row in rows if row["queue_id"] == span["queueId"]]
        assert (span["topic"], span["brokerName"]) == ("SeedTags", None)
        assert (span["begin"], span["end"], span["rows"]) == (min(offsets), max(offsets) + 1, len(offsets))


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (Layout(partition_by=("week",)), "--partition-by week: expected one of topic, day, hour, queue"),
        (Layout(partition_by=("day", "day")), "--partition-by: a name is given twice"),
        (Layout(compression="zip"), "--compression zip: expected one of zstd, "),
        (Layout(columns=("nobody",)), "--columns nobody: expected one of topic, "),
        (Layout(columns=("topic",), partition_by=("topic",)), "--columns: no columns remain"),
    ],
)
def test_what_there_is_not(store_clean: JavaStore, tmp_path: Path, layout: Layout, said: str) -> None:
    with pytest.raises(LayoutError, match=said):
        export_store(store_clean.root, tmp_path / "out", RowFilter(), layout=layout)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--file-size", "big"], "--file-size big: expected a size such as 64M or 1G"),
        (["--row-group-size", "0"], "--row-group-size 0: expected a size such as"),
        (["--compression", "zip"], "--compression zip: expected one of zstd"),
        (["--resume", "-o", "-5"], "--resume continues where the last export ended"),
    ],
)
def test_wrong_options(
    cli: Run, store_clean: JavaStore, tmp_path: Path, arguments: list[str], said: str
) -> None:
    out = str(tmp_path / "out")
    result = cli("export", "--store", str(store_clean.root), "--out", out, *arguments)
    assert (result.code, result.out, result.err.count("\n")) == (ExitCode.USAGE, b"", 1)
    assert result.err.startswith(f"rmq: {said}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("2K", 2048), ("1.5MiB", 1572864), ("1gb", 1 << 30), (" 3 T ", 3 << 40)]
)
def test_sizes(text: str, size: int) -> None:
    from rmqcli.grammar.values import parse_size

    assert parse_size("--file-size", text) == size
