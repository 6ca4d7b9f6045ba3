"""The files to import, local or in object storage: those of a folder or an export, or of the current version
of a table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from rmqcli.export.output.storage import Location, Storage, location
from rmqcli.export.tables.naming import format_of, is_folder
from rmqcli.extras import require
from rmqcli.import_.rows import (
    LINES,
    PARQUET,
    ImportRow,
    InputError,
    InputFile,
    InputNotFound,
    local_file,
    read_lines,
)

_DELETED, _RENAMED = "deletionVectors", "delta.columnMapping.mode"


class Source(NamedTuple):
    """The files of a source. `name` identifies it, wherever the command is run; the default name of the progress
    file is `beside` with a suffix.

    `listed` are the names under which rows of this source may have been sent; None: any.
    """

    name: str
    beside: Path
    files: list[InputFile]
    listed: Collection[str] | None = None


def source_of(text: str) -> Source:
    """Return the files of a path, a URI or a table.

    Raises InputNotFound if there are none, InputError, and the errors of storages and tables.
    """
    if not is_folder(text):
        kind, rest = format_of(text, "PATH"), text.partition(":")[2]
        return _of_iceberg(rest) if kind == "iceberg" else _of_delta(rest)
    place = location("PATH", text)
    if _is_delta(place):
        return _of_delta(place.uri if isinstance(place, Storage) else str(place))
    name = place.resolve()
    beside = Path.cwd() / name.name if isinstance(name, Storage) else name
    return Source(str(name), beside, *_of_files(place))


def read_rows(file: InputFile, topic: str) -> Iterator[ImportRow]:
    """Yield the rows of a file, for `topic`.

    If a Parquet file cannot be read to its end, the last row has the error. Errors of a storage that concern
    all its files are raised, at any row.
    """
    if file.suffix in LINES:
        return read_lines(file, topic)
    from rmqcli.import_.parquet import read_parquet

    return read_parquet(file, topic)


def _is_delta(place: Location) -> bool:
    log = place / "_delta_log"
    return bool(log.names()) if isinstance(log, Storage) else log.is_dir()


def _of_files(place: Location) -> tuple[list[InputFile], Collection[str] | None]:
    """Return the files to read, named relative to `place`, in the order of the manifest, or sorted.

    As for all readers of Parquet, names that start with `_` or `.` are not data.
    """
    if _is_file(place):
        if not place.name.endswith((*PARQUET, *LINES)):
            raise InputError(
                f"{place}: expected a .parquet or .jsonl file; `rmq send --jsonl` reads lines from a pipe"
            )
        return [_file(place, place.name)], None
    found = _below(place)
    names = sorted(name for name in found if _is_data(name))
    # Only the catalog of an Iceberg table knows its current version.
    if any(name.startswith("metadata/") and name.endswith(".metadata.json") for name in found):
        raise InputError(
            f"{place}: is an Iceberg table, with files of old versions; name it iceberg:CATALOG.NAMESPACE.NAME"
        )
    if not names:
        raise InputNotFound(f"{place}: no .parquet or .jsonl file is in this folder")
    from rmqcli.export.output.storage_folder import has_plan, listed

    if has_plan(place):
        raise InputError(
            f"{place}: a commit is not complete, so rows may be missing or there twice; "
            "complete it with `rmq compact` or `rmq export --resume`"
        )
    manifest = listed(place)
    rows = {} if manifest is None else {file.path: file.rows for file in manifest.files}
    order = {name: number for number, name in enumerate(rows)}
    names.sort(key=lambda name: order.get(name, len(order)))
    files = [_file(place / name, name, rows.get(name)) for name in names]
    # A progress file may also name files that the user has removed since.
    return files, None if manifest is None else {*rows, *names}


def _is_file(place: Location) -> bool:
    """Return True for a file, False for a folder. Raises InputNotFound if it is neither."""
    if isinstance(place, Storage):
        is_file, is_there = place.parent.size(place.name) >= 0, bool(place.names())
    else:
        is_there = place.exists()
        is_file = is_there and not place.is_dir()  # also a pipe
    if not is_file and not is_there:
        raise InputNotFound(f"{place}: no such file or folder")
    return is_file


def _below(place: Location) -> list[str]:
    if isinstance(place, Storage):
        return place.files()
    return [str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()]


def _is_data(name: str) -> bool:
    path = PurePosixPath(name)
    hidden = any(part.startswith(("_", ".")) for part in path.parts)
    return not hidden and path.suffix in (*PARQUET, *LINES)


def _file(place: Location, name: str, rows: int | None = None) -> InputFile:
    if isinstance(place, Storage):
        return InputFile(name, partial(place.parent.open, place.name), rows, str(place))
    return local_file(name, place, rows)


def _of_delta(uri: str) -> Source:
    """Return the files of the current version, in the order of their first store times.

    Raises InputError for a table whose files do not show which rows it has, or lack a column of messages.
    """
    require("table", "deltalake")
    import pyarrow as pa

    from rmqcli.export.tables.delta import DeltaTable, explained
    from rmqcli.import_.parquet import COLUMNS

    table = DeltaTable(uri)
    with explained(table.shown):
        log = table.opened()
        facts, protocol = log.metadata(), log.protocol()
        actions = pa.table(log.get_add_actions(flatten=True)).to_pylist()
    apart = sorted(set(facts.partition_columns) & set(COLUMNS))
    if apart:
        raise InputError(f"{table.shown}: is partitioned by {apart[0]}, so its files lack that column")
    mapping = facts.configuration.get(_RENAMED, "none")
    _refuse(table.shown, _DELETED in (protocol.reader_features or ()), mapping != "none")
    actions.sort(key=lambda one: (str(one.get("min.store_timestamp") or ""), one["path"]))
    is_elsewhere = table.options is not None
    files = [
        InputFile(name, partial(table.place.open, name), rows, f"{table.uri}/{name}" if is_elsewhere else "")
        for name, rows in ((unquote(one["path"]), one["num_records"]) for one in actions)
    ]
    beside = Path.cwd() / PurePosixPath(table.uri).name if is_elsewhere else Path(table.uri)
    return _of_table(table.uri, table.shown, beside, files)


def _of_iceberg(name: str) -> Source:
    """Return the files of the current snapshot, in the order of their first store times.

    Raises InputError for a table whose files do not show which rows it has.
    """
    require("table", "pyiceberg")
    from rmqcli.export.tables.iceberg import IcebergTable

    there = IcebergTable(name)
    table, place, found = there.current()
    fields = [field for schema in table.schemas().values() for field in schema.fields]
    _refuse(there.shown, any(one.delete_files for one in found), _is_renamed(fields))
    times = {field.field_id for field in fields if field.name == "store_timestamp"}
    found.sort(key=lambda one: _first(one.file.lower_bounds, times))
    files = [
        InputFile(
            path.removeprefix(f"{place.location}/"),
            partial(place.stream, path),
            rows,
            "" if place.is_local else path,
        )
        for path, rows in ((one.file.file_path, one.file.record_count) for one in found)
    ]
    return _of_table(there.shown, there.shown, Path.cwd() / name, files)


def _is_renamed(fields: Iterable[Any]) -> bool:
    """Return True if a column of messages had another name in some version, or its name another column."""
    from rmqcli.import_.parquet import COLUMNS

    pairs = {(field.field_id, field.name) for field in fields}
    wanted = {number for number, name in pairs if name in COLUMNS}
    found = [pair for pair in pairs if pair[0] in wanted]
    return not len(found) == len(wanted) == len({name for _, name in found})


def _first(bounds: Any, fields: Collection[int]) -> int:
    """Return the minimum of a time in a file; 0 if unknown."""
    least = next((value for field, value in (bounds or {}).items() if field in fields), b"")
    return int.from_bytes(least, "little", signed=True)


def _refuse(shown: str, has_deleted: bool, has_renamed: bool) -> None:
    if has_deleted or has_renamed:
        raise InputError(
            f"{shown}: has deletion vectors, delete files or renamed columns, which data files do not show; "
            "copy its rows to Parquet"
        )


def _of_table(name: str, shown: str, beside: Path, files: list[InputFile]) -> Source:
    if not files:
        raise InputNotFound(f"{shown}: this table has no rows")
    return Source(name, beside, files, {file.name for file in files})
