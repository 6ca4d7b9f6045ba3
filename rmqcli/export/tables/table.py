"""A table as a run sees it, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import FileEntry
from rmqcli.export.output.places import Place
from rmqcli.export.tables.progress import Progress

REFRESH_MS = 24 * 60 * 60 * 1000
"""The age from which progress is committed again although there are no new rows: old versions expire."""


class CommitConflict(Exception):
    """The table is no longer at the version that a commit was made for."""


class TableState(NamedTuple):
    """A version of a table: its columns, and the progress stored with it, None if nothing was exported to it.

    `handle` belongs to the format. `is_fading`: others have committed since, and the version that has the
    progress is so old that it may expire.
    """

    handle: Any
    columns: Any
    progress: Progress | None
    is_fading: bool = False


class TableFile(NamedTuple):
    """A written file, its Parquet footer."""

    entry: FileEntry
    footer: Any


class TablePlace(Place, Protocol):
    """A place whose files can be read, and removed before a commit knows of them."""

    def open(self, name: str) -> Any: ...

    def size(self, name: str) -> int: ...

    def finish(self, name: str) -> None:
        """Give a whole file its name, once; it is read and measured before. A commit comes next."""

    def drop(self, prefix: str) -> None:
        """Remove files whose names start so, wherever that is possible at little cost."""


class Table(Protocol):
    """Raises TableError for whatever its storage or catalog refuses."""

    @property
    def shown(self) -> str: ...

    @property
    def place(self) -> TablePlace:
        """The place of its files, after `prepare`."""

    def layout(self, wanted: Layout) -> Layout:
        """Return the layout of its files."""

    def schema(self, layout: Layout) -> Any:
        """Return its columns for files of this layout."""

    def load(self) -> TableState | None:
        """Return the newest version, None if there is no table. Raises TableMismatch for other partitions."""

    def prepare(self, state: TableState | None, layout: Layout) -> None:
        """Make its place ready for files of this layout."""

    def commit(
        self, state: TableState | None, files: Sequence[TableFile], progress: Progress, added: Sequence[Any]
    ) -> None:
        """Add files, progress and columns if the table still is at `state` (None: does not exist yet).

        Raises CommitConflict if it is not.
        """

    def has_run(self, run: str, since: TableState | None) -> bool:
        """Return True if a commit after this version has the progress of this run."""
