"""Merging of the small files of a table, as a change feed makes them, into files of a target size.

No row changes, and the commit replaces files in one step: readers see the old files or the new ones, and a
run that is killed has done nothing. Exports may add to the table meanwhile, and continue where they were: a
Delta commit leaves their offsets alone, a snapshot of Iceberg repeats those of its parent.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import parquet

from rmqcli.export.errors import TableError
from rmqcli.export.output.layout import ROW_GROUP_BYTES, Layout
from rmqcli.export.output.order import ORDER, sorted_table, sorting_columns
from rmqcli.export.output.parquet import writer_options
from rmqcli.export.tables.committing import commit_patiently
from rmqcli.export.tables.naming import format_of

File = TypeVar("File")


class Compacted(NamedTuple):
    """The files that were merged, or that would be, and those that replace them; None if not known before."""

    table: str
    files: int
    bytes: int
    files_after: int
    bytes_after: int | None
    seconds: float


def compact(name: str, file_bytes: int, *, dry_run: bool = False) -> Compacted:
    """Merge small files of a table of this name into files of about this size."""
    started = time.perf_counter()
    is_delta = format_of(name) == "delta"
    found = (_compact_delta if is_delta else _compact_iceberg)(name.partition(":")[2], file_bytes, dry_run)
    return found._replace(seconds=time.perf_counter() - started)


def bins(
    files: Iterable[File],
    partition: Callable[[File], Hashable],
    size: Callable[[File], int],
    most: int,
) -> list[list[File]]:
    """Return files of one partition that fit into one of size `most`, at least two, in their order.

    A file of more than half of that size stays as it is, so that no row is rewritten again and again.
    """
    done: list[list[File]] = []
    under_way: dict[Hashable, tuple[list[File], int]] = {}
    for file in files:
        own = size(file)
        if own > most // 2:
            continue
        gathered, total = under_way.get(partition(file), ([], 0))
        if total + own > most:
            done.append(gathered)
            gathered, total = [], 0
        under_way[partition(file)] = [*gathered, file], total + own
    done += [gathered for gathered, _ in under_way.values()]
    return [files for files in done if len(files) > 1]


def _compact_delta(uri: str, file_bytes: int, dry_run: bool) -> Compacted:
    """Compact by the library, which also repeats its commit if another one only added files."""
    import deltalake

    from rmqcli.export.tables.delta import DeltaTable, explained

    there = DeltaTable(uri)
    with explained(there.shown):
        if not deltalake.DeltaTable.is_deltatable(there.uri, there.options):
            raise TableError(f"{there.shown}: no such table")
        table = deltalake.DeltaTable(there.uri, storage_options=there.options)
        if dry_run:
            actions = pa.table(table.get_add_actions()).to_pylist()
            merged = bins(
                actions, lambda one: str(one["partition"]), lambda one: int(one["size_bytes"]), file_bytes
            )
            return _planned(there.shown, merged, lambda one: int(one["size_bytes"]))
        found = table.optimize.compact(target_size=file_bytes, writer_properties=_delta_properties())
    removed, added = found["numFilesRemoved"], found["numFilesAdded"]
    sizes = [_total(found[name]) for name in ("filesRemoved", "filesAdded")]
    return Compacted(there.shown, removed, sizes[0], added, sizes[1], 0.0)


def _total(facts: Any) -> int:
    import msgspec

    decoded = msgspec.json.decode(facts) if isinstance(facts, str) else facts
    return int(decoded["totalSize"])


def _delta_properties() -> Any:
    from deltalake import BloomFilterProperties, ColumnProperties, WriterProperties

    ids = ColumnProperties(bloom_filter_properties=BloomFilterProperties(True, fpp=0.05))
    # Unlike others, this writer would repeat the longest body whole, twice.
    return WriterProperties(
        compression="ZSTD", statistics_truncate_length=64, column_properties={"msg_id": ids}
    )


def _planned(shown: str, merged: Sequence[Sequence[Any]], size: Callable[[Any], int]) -> Compacted:
    files = [file for some in merged for file in some]
    return Compacted(shown, len(files), sum(map(size, files)), len(merged), None, 0.0)


def _compact_iceberg(name: str, file_bytes: int, dry_run: bool) -> Compacted:
    """Merge files and sort their rows; pyiceberg has no compaction, but a snapshot that replaces files."""
    from rmqcli.export.tables.iceberg import IcebergTable

    there = IcebergTable(name)
    place, files = there.files()
    shapes = {one.file.file_path: place.footer(one.file.file_path) for one in files}

    def raw_size(one: Any) -> int:
        footer = shapes[one.file.file_path]
        return sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))

    def alike(one: Any) -> Hashable:
        # Files with other columns are not merged: those of a table may grow.
        return str(one.file.partition), str(
            shapes[one.file.file_path].schema.to_arrow_schema().remove_metadata()
        )

    merged = bins(files, alike, raw_size, file_bytes)
    if dry_run or not merged:
        return _planned(there.shown, merged, lambda one: int(one.file.file_size_in_bytes))._replace(
            bytes_after=None if merged else 0
        )
    prefix = f"rmq-{uuid.uuid4().hex}-"
    names: list[str] = []
    may_be_committed = False

    def commit() -> None:
        nonlocal may_be_committed
        may_be_committed = True  # before the commit, because its reply may be lost
        there.replace([one.file for some in merged for one in some], names)

    def is_there() -> bool:
        nonlocal may_be_committed
        may_be_committed = there.has(names[0])
        return may_be_committed

    try:
        for number, some in enumerate(merged):
            names.append(f"{prefix}{number:05d}.parquet")
            tables = [place.read(one.file.file_path) for one in some]
            with place.create(names[-1]) as stream:
                _write(stream, pa.concat_tables(tables))
        written = sum(map(place.size, names))
        for one in names:
            place.finish(one)
        commit_patiently(there.shown, commit, is_there, lost="nothing was compacted")
    except BaseException:
        if not may_be_committed:
            place.drop(prefix)
        raise
    found = _planned(there.shown, merged, lambda one: int(one.file.file_size_in_bytes))
    return found._replace(bytes_after=written)


def _write(stream: Any, table: Any) -> None:
    """Write a file of sorted rows, in row groups of the size that those of an export have."""
    names = set(table.column_names)
    layout = Layout(columns=tuple(name for name in Layout().every().names if name in names))
    rows = max(1, table.num_rows * ROW_GROUP_BYTES // max(table.nbytes, 1))
    options = writer_options(layout, table.slice(0, rows))
    if names.issuperset(ORDER):
        table = sorted_table(table)
        options["sorting_columns"] = sorting_columns(layout, table.schema)
    with parquet.ParquetWriter(stream, table.schema, **options) as writer:
        writer.write_table(table, row_group_size=rows)
