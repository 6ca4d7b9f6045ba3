"""Merging of the small files of a table, as a change feed makes them, into files of a target size.

No row changes, and the commit replaces files in one step: readers see the old files or the new ones, and a
killed run has no effect. Exports may add to the table meanwhile, and continue where they were: a Delta commit
leaves their offsets alone, a snapshot of Iceberg repeats those of its parent.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Hashable
from typing import Any

import pyarrow as pa

from rmqcli.export.output.compaction import Compacted, bins, known_columns, planned, write_sorted
from rmqcli.export.output.layout import Layout
from rmqcli.export.tables.committing import commit_patiently
from rmqcli.export.tables.naming import format_of


def compact(name: str, file_bytes: int, *, dry_run: bool = False) -> Compacted:
    """Merge small files of a table of this name into files of about this size."""
    started = time.perf_counter()
    is_delta = format_of(name) == "delta"
    found = (_compact_delta if is_delta else _compact_iceberg)(name.partition(":")[2], file_bytes, dry_run)
    return found._replace(seconds=time.perf_counter() - started)


def _compact_delta(uri: str, file_bytes: int, dry_run: bool) -> Compacted:
    """Compact with the library, which also repeats its commit if another one only added files."""
    from rmqcli.export.tables.delta import DeltaTable, explained

    there = DeltaTable(uri)
    with explained(there.shown):
        table = there.opened()
        if dry_run:
            actions = pa.table(table.get_add_actions()).to_pylist()
            merged = bins(
                actions, lambda one: str(one["partition"]), lambda one: int(one["size_bytes"]), file_bytes
            )
            return planned(there.shown, merged, lambda one: int(one["size_bytes"]))
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
    # Unlike other writers, this one would repeat the longest body in full, twice.
    return WriterProperties(
        compression="ZSTD", statistics_truncate_length=64, column_properties={"msg_id": ids}
    )


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
        return planned(there.shown, merged, lambda one: int(one.file.file_size_in_bytes))._replace(
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
                table = pa.concat_tables(tables)
                write_sorted(stream, table, Layout(columns=known_columns(table.column_names)))
        written = sum(map(place.size, names))
        for one in names:
            place.finish(one)
        commit_patiently(there.shown, commit, is_there, lost="nothing was compacted")
    except BaseException:
        if not may_be_committed:
            place.drop(prefix)
        raise
    found = planned(there.shown, merged, lambda one: int(one.file.file_size_in_bytes))
    return found._replace(bytes_after=written)
