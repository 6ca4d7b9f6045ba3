"""A table as a run sees it, independent of its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from rmqcli.export.errors import (
    StorageDenied,
    StorageError,
    StorageNotFound,
    StorageUnreachable,
    TableDenied,
    TableError,
    TableMismatch,
    TableNotFound,
    TableUnreachable,
)
from rmqcli.export.output.folder import Unfinished
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import FileEntry
from rmqcli.export.output.storage import kind_of
from rmqcli.export.tables.progress import Progress
from rmqcli.export.transform.columns import TypeConflict, canonical, merged

REFRESH_MS = 24 * 60 * 60 * 1000
"""The age from which progress is committed again even without new rows, because old versions expire."""


class CommitConflict(Exception):
    """The table is no longer at the version that a commit was made for."""


_ERRORS: Mapping[type[StorageError], type[TableError]] = {
    StorageNotFound: TableNotFound,
    StorageDenied: TableDenied,
    StorageUnreachable: TableUnreachable,
}


def table_error(table: str, text: str) -> TableError:
    """Return the error of a library as one line, with a remedy if its reason is known."""
    kind, remedy = kind_of(text)
    return _ERRORS.get(kind, TableError)(f"{table}: {text.rstrip('.')}{remedy}")


class TableState(NamedTuple):
    """A version of a table: its columns, and the progress stored with it, None if it has no export yet.

    `handle` belongs to the format. `is_fading`: other writers have committed since, and the version with the
    progress is so old that it may expire.
    """

    handle: Any
    columns: Any
    progress: Progress | None
    is_fading: bool = False


class TableFile(NamedTuple):
    """A written file with its Parquet footer."""

    entry: FileEntry
    footer: Any


class TablePlace(Unfinished, Protocol):
    """A location whose files can be read, and removed before a commit refers to them."""

    def finish(self, name: str) -> None:
        """Give a complete file its final name, once.

        It has been read and measured before; a commit comes next.
        """

    def drop(self, prefix: str) -> None:
        """Remove files whose names start with `prefix`, if that is cheap."""


class Table(Protocol):
    """A table of some format.

    Its methods raise TableError for anything that its storage or catalog refuses.
    """

    @property
    def shown(self) -> str: ...

    @property
    def place(self) -> TablePlace:
        """The location of its files, after `prepare`."""

    def layout(self, wanted: Layout) -> Layout:
        """Return the layout of its files."""

    def schema(self, layout: Layout) -> Any:
        """Return its columns for files of this layout."""

    def load(self) -> TableState | None:
        """Return the newest version, or None if there is no table.

        Raises TableMismatch for other partitions.
        """

    def prepare(self, state: TableState | None, layout: Layout) -> None:
        """Prepare its location for files of this layout."""

    def commit(
        self, state: TableState | None, files: Sequence[TableFile], progress: Progress, added: Sequence[Any]
    ) -> None:
        """Add files, progress and columns if the table is still at `state` (None: it does not exist yet).

        Raises CommitConflict if it is not.
        """

    def has_run(self, run: str, since: TableState | None) -> bool:
        """Return True if a commit after version `since` has the progress of this run."""


NEEDED = ("topic", "store_timestamp")
"""The columns from which partitions are derived."""


def columns(layout: Layout) -> Any:
    """Return the fields of the rows of a table, including the topic even if files leave it out."""
    names = {*layout.names, *NEEDED}
    return pa.schema([field for field in layout.every() if field.name in names and field.type != pa.null()])


def needed(layout: Layout) -> Layout:
    """Return the layout with the columns from which partitions are derived."""
    if layout.columns is None:
        return layout
    return replace(layout, columns=tuple(dict.fromkeys((*layout.columns, *NEEDED))))


def added_fields(there: Any, wanted: Any, table: str) -> list[Any]:
    """Return the fields that an export adds to a table, including structs with additional fields.

    Raises TableMismatch for a field of another type, and for a required column that the export lacks.
    """
    known = {field.name: field for field in there}
    found = []
    for field in wanted:
        if field.name not in known:
            found.append(field)
            continue
        kind = known[field.name].type
        try:
            grown = merged(kind, field.type, field.name)
        except TypeConflict as error:
            raise TableMismatch(
                f"{table}: column {error}; columns are only added, so name a new table"
            ) from None
        if grown != canonical(kind):
            found.append(pa.field(field.name, grown))
    for field in there:
        if not field.nullable and field.name not in wanted.names:
            raise TableMismatch(
                f"{table}: column {field.name} must not be null, and the export has no such column; name a new table"
            )
    return found


def require_partitions(there: list[str], wanted: list[str], table: str) -> None:
    if there != wanted:
        raise TableMismatch(
            f"{table}: is partitioned by {', '.join(there) or 'nothing'}, not by {', '.join(wanted)}; "
            "name a new table"
        )
