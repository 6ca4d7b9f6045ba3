"""Merging of small files into files of a target size: the part common to folders and tables, and folders.

In the folder of an export, each new file is one commit, so a killed run has merged whole files, or leaves a
plan that the next run on the folder carries out. The offsets of the manifest do not change.

Files are merged with their neighbours in the manifest only, so that it still lists the rows of a queue in
order. Those of different brokers stay apart in an export of several stores: the end of a commit log in the
footer of a file is that of one of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import parquet

from rmqcli.export.errors import ExportNotFound, StorageNotFound
from rmqcli.export.output.folder import LocalPlace
from rmqcli.export.output.layout import BLOOM_FILTERS, EVERYTHING, ROW_GROUP_BYTES, Layout
from rmqcli.export.output.manifest import FileEntry, Manifest, footer_facts, latest, merged
from rmqcli.export.output.order import ORDER, sorted_table, sorting_columns
from rmqcli.export.output.parquet import writer_options
from rmqcli.export.output.storage import Location, Storage
from rmqcli.export.output.storage_folder import has_plan, listed, open_folder

File = TypeVar("File")

FOOTERS = 8
"""The number of footers that are read at the same time."""


class Compacted(NamedTuple):
    """The files that were merged, or that would be, and those that replace them; None if not known before."""

    table: str
    files: int
    bytes: int
    files_after: int
    bytes_after: int | None
    seconds: float


def bins(
    files: Iterable[File],
    partition: Callable[[File], Hashable],
    size: Callable[[File], int],
    most: int,
) -> list[list[File]]:
    """Return files of one partition that fit into one of size `most`, at least two, in their order.

    A file of more than half of that size is left as it is, so that no row is rewritten repeatedly.
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


def planned(shown: str, bins: Sequence[Sequence[File]], size: Callable[[File], int]) -> Compacted:
    files = [file for some in bins for file in some]
    return Compacted(shown, len(files), sum(map(size, files)), len(bins), None, 0.0)


def write_sorted(stream: Any, table: Any, layout: Layout, facts: Mapping[str, str] | None = None) -> None:
    """Write a file of sorted rows, in row groups of the size that those of an export have."""
    rows = max(1, table.num_rows * ROW_GROUP_BYTES // max(table.nbytes, 1))
    options = writer_options(layout, table.slice(0, rows))
    in_folder = "topic" in layout.partition_by and "topic" not in table.column_names
    if {*table.column_names, *(["topic"] if in_folder else [])}.issuperset(ORDER):
        if in_folder:  # sorting needs one topic, whichever
            topics = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows, pa.int32()), [""])
            table = sorted_table(table.append_column("topic", topics)).drop_columns(["topic"])
        else:
            table = sorted_table(table)
        options["sorting_columns"] = sorting_columns(layout, table.schema)
    with parquet.ParquetWriter(stream, table.schema, **options) as writer:
        writer.write_table(table, row_group_size=rows)
        if facts:
            writer.add_key_value_metadata(facts)


def compact_folder(out: Location, file_bytes: int, *, dry_run: bool = False) -> Compacted:
    """Merge small files of the export in a folder into files of about this size, before compression."""
    started = time.perf_counter()
    manifest, is_unfinished = listed(out), has_plan(out)
    if (manifest is None and not is_unfinished) or (isinstance(out, Path) and not out.is_dir()):
        raise ExportNotFound(f"{out}: no export is in this folder")
    # A folder without small files is not taken over from a running export.
    plan = [] if manifest is None else _bins(out, manifest, file_bytes)
    if dry_run or not (plan or is_unfinished):
        found = planned(str(out), plan, lambda one: one.entry.bytes)
        return found._replace(bytes_after=None if plan else 0)
    found = Compacted(str(out), 0, 0, 0, 0, 0.0)
    with open_folder(out, None, EVERYTHING, resume=True) as folder:
        plan = [] if folder.previous is None else _bins(out, folder.previous, file_bytes)
        for number, some in enumerate(plan):
            first = some[0]
            name = f"{first.folder}merged-{number:05d}.parquet"
            with folder.place.create(name) as stream:
                _write(stream, out, some, tuple(folder.previous.partition_by) if folder.previous else ())
            entry = folder.replace([one.entry for one in some], name)
            found = found._replace(
                files=found.files + len(some),
                bytes=found.bytes + sum(one.entry.bytes for one in some),
                files_after=found.files_after + 1,
                bytes_after=(found.bytes_after or 0) + entry.bytes,
            )
    return found._replace(seconds=time.perf_counter() - started)


class _Small(NamedTuple):
    """A file and the facts in its footer; `size` is before compression."""

    entry: FileEntry
    footer: Any
    size: int

    @property
    def folder(self) -> str:
        folder, separator, _ = self.entry.path.rpartition("/")
        return folder + separator

    @property
    def schema(self) -> Any:
        return self.footer.schema.to_arrow_schema().remove_metadata()


def _bins(out: Location, manifest: Manifest, file_bytes: int) -> list[list[_Small]]:
    with ThreadPoolExecutor(FOOTERS, "footer") as threads:
        looked = list(threads.map(partial(_look, out, file_bytes), manifest.files))
    runs: Counter[Hashable] = Counter()
    last: dict[Hashable, str] = {}
    keys: dict[str, Hashable] = {}
    for entry, small in zip(manifest.files, looked, strict=True):
        series = entry.path.rpartition("/")[0], _brokers(entry) if len(manifest.stores) > 1 else None
        # Files before and after a large one, or one with other columns, are not neighbours.
        kind = str(small.schema) if small else ""
        if last.get(series) != kind:
            runs[series] += 1
        last[series] = kind
        keys[entry.path] = series, runs[series]
    there = [small for small in looked if small]
    return bins(there, lambda one: keys[one.entry.path], lambda one: one.size, file_bytes)


def _brokers(entry: FileEntry) -> frozenset[str | None]:
    return frozenset(span.broker_name for span in entry.queues)


def _look(out: Location, file_bytes: int, entry: FileEntry) -> _Small | None:
    """Return the facts about a file; None if it is large, or was removed."""
    if entry.bytes > file_bytes:  # footers also count
        return None
    place = _place(out)
    try:
        with place.open(entry.path) as file:
            footer = parquet.read_metadata(file)
    except (FileNotFoundError, StorageNotFound):
        return None
    size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
    return _Small(entry, footer, size) if size <= file_bytes // 2 else None


def _place(out: Location) -> Any:
    return out if isinstance(out, Storage) else LocalPlace(out)


def _write(stream: Any, out: Location, files: Sequence[_Small], partition_by: tuple[str, ...]) -> None:
    tables = []
    for one in files:
        with _place(out).open(one.entry.path) as file:
            tables.append(parquet.ParquetFile(file).read().replace_schema_metadata(None))
    entries = [one.entry for one in files]
    end = max(entry.commit_log_end for entry in entries)
    facts = {
        **_texts(files[0].footer.metadata),
        **footer_facts(
            merged(span for entry in entries for span in entry.queues),
            latest(row for entry in entries for row in entry.last),
            sum(entry.undecoded for entry in entries),
            end or None,
        ),
    }
    write_sorted(stream, pa.concat_tables(tables), _layout(files, partition_by), facts)


def _texts(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {name.decode(): text.decode() for name, text in (metadata or {}).items()}


def _layout(files: Sequence[_Small], partition_by: tuple[str, ...]) -> Layout:
    """Return the layout in which the files were written, as far as it can be determined."""
    groups = (one.footer.row_group(0) for one in files if one.footer.num_row_groups)
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    filtered = {column.path_in_schema for column in columns if _has_bloom_filter(column)}
    return Layout(
        partition_by=partition_by,
        columns=known_columns(files[0].schema.names),
        compression=_COMPRESSIONS.get(columns[0].compression, "zstd") if columns else "zstd",
        bloom_filters=tuple(name for name, path in BLOOM_FILTERS.items() if path in filtered),
    )


def known_columns(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in EVERYTHING.every().names if name in names)


def _has_bloom_filter(column: Any) -> bool:
    return getattr(column, "bloom_filter_offset", None) is not None


_COMPRESSIONS = {"UNCOMPRESSED": "none", "LZ4_RAW": "lz4"} | {
    name.upper(): name for name in ("zstd", "snappy", "gzip", "lz4", "brotli")
}
