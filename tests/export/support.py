"""Rows of an export and of decoded messages in one form, and small commit logs to cut and to damage."""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.scan.arrow import scan_batches, schema
from rmqcli.export.from_store.parts import parts_of, scan_part
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.output.folder import LocalPlace
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import MANIFEST, Manifest, books_of, read_json
from rmqcli.export.output.parquet import Output
from rmqcli.store import CommitLogFiles
from tests.codec.samples import make_record
from tests.support import COMMIT_LOG_FILE_SIZE, JavaStore

NAMES = schema().names
MOMENTS = ("born_timestamp", "store_timestamp")
Row = dict[str, Any]


def as_row(message: MessageExt) -> Row:
    """Returns a decoded message as its expected row; times in microseconds."""
    columns = {name: getattr(message, name) for name in NAMES}
    return {
        **columns,
        **{name: columns[name] * 1000 for name in MOMENTS},
        "broker_name": message.broker_name or None,
    }


@lru_cache(maxsize=4)
def java_rows(store: JavaStore) -> list[Row]:
    """Returns every record of the dump, decoded one by one: the same list again, which nobody changes."""
    log = store.commit_log
    return [
        as_row(decode_record(log, line["phy"], check_crc=True, decompress=True))
        for line in store.of_kind("msg")
    ]


def table_of(out: Path) -> pa.Table:
    """Returns all files of an export; each must have the schema of every export, names and nullability
    included.
    """
    files = sorted(out.glob("part-*.parquet"))
    tables = [parquet.read_table(file) for file in files]
    for table in tables:
        assert table.schema.equals(schema()), table.schema
        assert table.schema.metadata[b"rmq.source"]
    return pa.concat_tables(tables)


def rows_of(out: Path) -> list[Row]:
    """Returns all rows of an export in the order of the files."""
    return rows_of_table(table_of(out))


def rows_of_table(table: pa.Table) -> list[Row]:
    columns = {
        name: (table[name].cast(pa.int64()) if name in MOMENTS else table[name]).to_pylist()
        for name in table.column_names
    }
    columns["properties"] = list(map(dict, columns["properties"]))
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def by_place(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["commit_log_offset"])


def write_log(folder: Path, bodies: Iterable[bytes], tail: bytes = b"") -> list[int]:
    """Writes one commit log file with these bodies; returns the bytes where records start."""
    data, starts = bytearray(), []
    for number, body in enumerate(bodies):
        starts.append(len(data))
        data += make_record(body=body, physical_offset=len(data), queue_offset=number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{0:020d}").write_bytes(bytes(data) + tail)
    return starts


def scanned(folder: Path, part_size: int, rows: RowFilter | None = None) -> Iterator[int]:
    """Returns the commit-log offsets that all parts of a log yield, part after part."""
    wanted = rows or RowFilter()
    for part in parts_of(folder, wanted, part_size):
        for batch in scan_part(part, wanted):
            yield from batch["commit_log_offset"].to_pylist()


def harm_another_topic(store: JavaStore, topics: Container[str]) -> None:
    """Damages a body that is of none of these topics: a reader of it would notice."""
    row = next(row for row in java_rows(store) if row["topic"] not in topics and len(row["body"]) > 4)
    place = row["commit_log_offset"] + row["store_size"] // 2
    path = store.commit_logs[place // COMMIT_LOG_FILE_SIZE]
    data = bytearray(path.read_bytes())
    data[place % COMMIT_LOG_FILE_SIZE] ^= 0xFF
    path.write_bytes(data)


def write_batches(store: Path, out: Path, rows: RowFilter, layout: Layout, batch_rows: int) -> list[str]:
    """Writes files of a store in batches of a few rows; returns their names."""
    out.mkdir(exist_ok=True)
    with Output(LocalPlace(out), str(store), layout).open() as files:
        for file in CommitLogFiles(store).files:
            for batch in scan_batches(file.path.read_bytes(), encoded=True, batch_rows=batch_rows):
                files.write(rows.apply(batch))
    for name in files.names:
        LocalPlace(out).finish(name)
    return files.names


SOURCE = random.Random(7)
NOISE = [SOURCE.randbytes(100) for _ in range(1000)]


def encodings(file: Path, name: str) -> tuple[str, ...]:
    group = parquet.read_metadata(file).row_group(0)
    columns = (group.column(number) for number in range(group.num_columns))
    return next(column.encodings for column in columns if column.path_in_schema == name)


NOW = 1_795_224_776_000
TIMED_FILE_SIZE = 40_000


def write_timed(store: Path, moments: list[int]) -> dict[int, int]:
    """Writes files of a log with a record for each store time; returns the times by commit-log offset."""
    folder = store / "commitlog"
    folder.mkdir(parents=True, exist_ok=True)
    found, data, base = {}, bytearray(), 0
    for number, moment in enumerate(moments):
        offset = base + len(data)
        found[offset] = moment
        data += make_record(
            body=b"x" * 100,
            physical_offset=offset,
            store_timestamp=moment,
            queue_offset=number // 2,
            topic=b"T%d" % (number % 2),
        )
        if len(data) > TIMED_FILE_SIZE or number == len(moments) - 1:
            (folder / f"{base:020d}").write_bytes(data)
            data, base = bytearray(), base + len(data)
    return found


def manifest_of(out: Path) -> Manifest:
    found = read_json(books_of(out) / MANIFEST, Manifest)
    assert isinstance(found, Manifest)
    return found
