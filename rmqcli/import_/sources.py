"""The files to import: those of a folder, or those of the current version of a Delta table in it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from rmqcli.import_.rows import COLUMNS, InputError, InputNotFound, import_files, listed_files

_DELETED, _RENAMED = "deletionVectors", "delta.columnMapping.mode"


class Source(NamedTuple):
    """The files, with their names in the source, and the names that rows of this source may have been sent by;
    None: any.
    """

    files: list[tuple[str, Path]]
    listed: Collection[str] | None


def source_of(path: Path) -> Source:
    """Return the files of a path. Raises InputNotFound if there are none, and InputError."""
    if _is_delta(path):
        names = _live_files(path)
        if not names:
            raise InputNotFound(f"{path}: this table has no rows")
        return Source([(name, path / name) for name in names], names)
    _refuse_iceberg(path)
    files = import_files(path)
    listed = listed_files(path)
    return Source(files, None if listed is None else {*listed, *(name for name, _ in files)})


def _is_delta(path: Path) -> bool:
    return (path / "_delta_log").is_dir()


def _refuse_iceberg(path: Path) -> None:
    """Raise InputError for the folder of an Iceberg table: only its catalog knows the current version."""
    if any((path / "metadata").glob("*.metadata.json")):
        raise InputError(
            f"{path}: is an Iceberg table, with files of old versions; import a Delta table or Parquet files"
        )


def _live_files(path: Path) -> list[str]:
    """Return the names of the files of the current version, in the order of their first store times.

    Raises InputError for a table whose files do not show which rows it has, or lack a column of messages.
    """
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(str(path.resolve()))
        facts, protocol = table.metadata(), table.protocol()
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    except DeltaError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    apart = sorted(set(facts.partition_columns) & set(COLUMNS))
    if apart:
        raise InputError(f"{path}: is partitioned by {apart[0]}, so its files lack that column")
    mapping = facts.configuration.get(_RENAMED, "none")
    if _DELETED in (protocol.reader_features or ()) or mapping != "none":
        raise InputError(
            f"{path}: has deletion vectors or renamed columns, which files do not show; copy its rows to Parquet"
        )
    ordered = sorted(actions, key=lambda one: (str(one.get("min.store_timestamp") or ""), one["path"]))
    return [_name(path, one["path"]) for one in ordered]


def _name(path: Path, name: str) -> str:
    """Return the name of a file, which the log has percent-encoded."""
    plain = unquote(name)
    return plain if (path / plain).exists() else name
