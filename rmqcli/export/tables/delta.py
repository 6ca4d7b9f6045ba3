"""Delta Lake tables, in a folder or in any storage that delta-rs supports.

Files are added by log entries alone: the library writes the commit, and this package the Parquet files. The
offsets are metadata of the commit (`commitInfo`), which Delta readers ignore. A commit is made for one
version, so that a commit of another writer between reading the offsets and committing is noticed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from rmqcli.export.errors import TableError, TableNotFound
from rmqcli.export.output.folder import LocalPlace, refuse_store
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.storage import (
    ATTEMPTS,
    CONNECT_SECONDS,
    REQUEST_SECONDS,
    RETRY_SECONDS,
    s3_endpoint,
)
from rmqcli.export.tables.progress import PROPERTY, Progress
from rmqcli.export.tables.table import (
    REFRESH_MS,
    CommitConflict,
    TableFile,
    TablePlace,
    TableState,
    columns,
    needed,
    require_partitions,
    table_error,
)
from rmqcli.grammar.values import local_path

# The statistics of a data file in a Delta log, taken from its Parquet footer: numbers and times.
#
# Readers use them to skip files. A time is a string with milliseconds, so a minimum is rounded down and a
# maximum up (Delta protocol, per-file statistics).

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_000
"""Milliseconds of the years 1 to 9999; times outside have no string form."""


class _Bounds(NamedTuple):
    name: str
    is_time: bool
    least: int
    greatest: int
    nulls: int


def statistics(footer: Any) -> str:
    """Return the JSON text of numRecords, minValues, maxValues and nullCount."""
    found = [bounds for bounds in _columns(footer) if not bounds.is_time or _has_text(bounds)]
    document = {
        "numRecords": footer.num_rows,
        "minValues": {
            one.name: _value(one, one.least // 1000 if one.is_time else one.least) for one in found
        },
        "maxValues": {
            one.name: _value(one, -(-one.greatest // 1000) if one.is_time else one.greatest) for one in found
        },
        "nullCount": {one.name: one.nulls for one in found},
    }
    return msgspec.json.encode(document).decode()


def _columns(footer: Any) -> Iterator[_Bounds]:
    """Yield the top-level columns of which every row group has bounds."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for number in range(footer.num_columns if groups else 0):
        column = footer.schema.column(number)
        chunks = [group.column(number).statistics for group in groups]
        if column.physical_type not in ("INT32", "INT64") or "." in column.path:
            continue
        if all(chunk is not None and chunk.has_min_max and chunk.has_null_count for chunk in chunks):
            yield _Bounds(
                column.path,
                column.logical_type.type == "TIMESTAMP",
                min(chunk.min_raw for chunk in chunks),
                max(chunk.max_raw for chunk in chunks),
                sum(chunk.null_count for chunk in chunks),
            )


def _has_text(bounds: _Bounds) -> bool:
    return bounds.least >= _FIRST * 1000 and bounds.greatest <= _LAST * 1000


def _value(bounds: _Bounds, number: int) -> int | str:
    """Return the value as JSON; `number` is in milliseconds for a time."""
    if not bounds.is_time:
        return number
    moment = _EPOCH + timedelta(milliseconds=number)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXISTS = "already exists at that location"
"""The message for a table that another writer creates at the same time. The error has no separate type."""
_LOOKS = (1, 64, None)
"""Numbers of commits to read, newest first, until one with offsets is found; None: all."""


def storage_options() -> dict[str, str]:
    """Return limits of requests, and options that delta-rs does not take from the environment by itself."""
    plain_http = {"allow_http": "true"} if (s3_endpoint() or "").startswith("http:") else {}
    return {
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "timeout": f"{REQUEST_SECONDS}s",
        "max_retries": str(ATTEMPTS),
        "retry_timeout": f"{RETRY_SECONDS}s",
        **plain_http,
    }


class StoragePlace(NamedTuple):
    """The storage of a table as streams."""

    uri: str
    shown: str

    @property
    def _files(self) -> Any:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        return PyFileSystem(DeltaStorageHandler(self.uri, storage_options()))

    def create(self, name: str) -> Any:
        with explained(self.shown):
            return self._files.open_output_stream(name)

    def open(self, name: str) -> Any:
        with explained(self.shown):
            return self._files.open_input_file(name)

    def size(self, name: str) -> int:
        with explained(self.shown):
            found: int = self._files.get_file_info(name).size
        return found

    def finish(self, name: str) -> None:
        """Do nothing, because in object storage a file appears only when it is complete."""

    def drop(self, prefix: str) -> None:
        """Do nothing, because listing a table takes long, and VACUUM removes the files."""


class DeltaTable:
    """The table at a URI or a path, partitioned by topic and by day or hour."""

    def __init__(self, uri: str, by: str = "day") -> None:
        is_elsewhere = "://" in uri and not uri.startswith(("/", "file:"))
        self.shown = f"delta:{uri}"
        self._partitions = [by, "topic"]
        self._folder = None if is_elsewhere else local_path(uri)
        self.uri = uri if self._folder is None else str(self._folder.resolve())
        self.options = storage_options() if is_elsewhere else None

    @cached_property
    def place(self) -> TablePlace:
        if self._folder is None:
            return StoragePlace(self.uri, self.shown)
        return LocalPlace(self._folder.resolve(), self.shown)

    def layout(self, wanted: Layout) -> Layout:
        from dataclasses import replace

        return replace(needed(wanted), partition_by=tuple(self._partitions))

    def schema(self, layout: Layout) -> Any:
        by = self._partitions[0]
        return columns(layout).append(pa.field(by, pa.date32() if by == "day" else pa.string()))

    def opened(self) -> Any:
        """Return the newest version as the library sees it. Raises TableNotFound if there is no table."""
        import deltalake

        if not deltalake.DeltaTable.is_deltatable(self.uri, self.options):
            raise TableNotFound(f"{self.shown}: no such table")
        return deltalake.DeltaTable(self.uri, storage_options=self.options)

    def load(self) -> TableState | None:
        with explained(self.shown):
            try:
                table = self.opened()
            except TableNotFound:
                return None
            partitions = list(table.metadata().partition_columns)
            known = pa.schema(table.schema().to_arrow())
        require_partitions(partitions, self._partitions, self.shown)
        return self._state(table, known)

    def _state(self, table: Any, known: Any) -> TableState:
        """Return the state of the table.

        Raises TableError if the commit that may have had offsets has expired.
        """
        for count in _LOOKS:
            last = None
            for commit in in_force(self._history(table, count)):
                if PROPERTY in commit:
                    progress = Progress.read(commit[PROPERTY], self.shown)
                    age = time.time() * 1000 - commit["timestamp"]
                    return TableState(
                        table, known, progress, age > REFRESH_MS and commit["version"] < table.version()
                    )
                last = commit["version"]
            if last == 0:
                return TableState(table, known, None)
        raise TableError(
            f"{self.shown}: its log goes back to version {last} only, and no commit since then has the offsets "
            "of an export (delta.logRetentionDuration); export to a new table"
        )

    def _history(self, table: Any, count: int | None) -> list[dict[str, Any]]:
        with explained(self.shown):
            found: list[dict[str, Any]] = table.history(count)
        return found

    def has_run(self, run: str, since: TableState | None) -> bool:
        now = self.load()
        first = since.handle.version() if since else -1
        if now is None:
            return False
        count = now.handle.version() - first
        commits = self._history(now.handle, count) if count > 0 else []
        return any(
            Progress.read(commit[PROPERTY], self.shown).run == run for commit in commits if PROPERTY in commit
        )

    def prepare(self, state: TableState | None, layout: Layout) -> None:
        if self._folder is not None:
            refuse_store(self._folder)
            self._folder.mkdir(parents=True, exist_ok=True)

    def commit(
        self, state: TableState | None, files: Sequence[TableFile], progress: Progress, added: Sequence[Any]
    ) -> None:
        import deltalake
        from deltalake.transaction import create_table_with_add_actions

        # The library must not repeat a commit on another version, for which its offsets would be wrong.
        properties = deltalake.CommitProperties({PROPERTY: progress.text}, max_commit_retries=0)
        actions = [_action(file) for file in files]
        with explained(self.shown):
            if state is None:
                create_table_with_add_actions(
                    self.uri,
                    deltalake.Schema.from_arrow(pa.schema(added)),
                    actions,
                    mode="error",
                    partition_by=self._partitions,
                    commit_properties=properties,
                    storage_options=self.options,
                )
                return
            table = state.handle
            if added:
                table.alter.add_columns(list(deltalake.Schema.from_arrow(pa.schema(added)).fields))
            table.create_write_transaction(
                actions, "append", table.schema(), self._partitions, commit_properties=properties
            )


@contextmanager
def explained(table: str) -> Iterator[None]:
    """Turn errors of the library into those of this package."""
    from deltalake import exceptions

    try:
        yield
    except exceptions.CommitFailedError as error:
        raise CommitConflict(str(error)) from error
    except (exceptions.DeltaError, OSError, ValueError) as error:
        if _EXISTS in str(error):
            raise CommitConflict(str(error)) from error
        raise table_error(table, _one_line(error)) from error


def _one_line(error: Exception) -> str:
    """Return the message on one line; those of storages have several lines, arrows and colours."""
    lines = (line.strip(" ↳") for line in _COLOUR.sub("", str(error)).splitlines())
    return ": ".join(filter(None, lines)) or type(error).__name__


def _action(file: TableFile) -> Any:
    """Return the action that adds a file. Its partition is in its path."""
    from deltalake.transaction import AddAction

    entry = file.entry
    folders = (part.partition("=") for part in entry.path.split("/")[:-1])
    values = {name: unquote(value) for name, _, value in folders}
    return AddAction(
        entry.path, entry.bytes, values, time.time_ns() // 1_000_000, True, statistics(file.footer)
    )


def in_force(commits: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield commits, newest first, without those that a RESTORE has undone."""
    newest: Mapping[str, int] = {}
    for commit in commits:
        time_and_version = {"version": commit["version"], "datetime": commit.get("timestamp", 0)}
        if any(time_and_version[key] > end for key, end in newest.items()):
            continue
        yield commit
        restored = commit["operationParameters"] if commit.get("operation") == "RESTORE" else {}
        newest = {key: int(value) for key, value in restored.items() if key in ("version", "datetime")}
