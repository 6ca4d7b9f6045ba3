"""The quarantine of a table: rows whose body does not decode, in a separate table or a folder.

The commit of the main table decides: it has the offsets after these rows, and names the run and its files in
the quarantine, which are complete but not visible by then. Afterwards, they are added there. If a run is
killed in between, the next run on the main table adds them before it reads: the quarantine records the last
run whose rows it has, by `chain`, which identifies the main table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from rmqcli.export.errors import StorageNotFound, TableMismatch
from rmqcli.export.output.folder import UNFINISHED, LocalPlace, footer_entry, refuse_store
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import ASIDE, FileEntry
from rmqcli.export.output.storage import Location, Storage
from rmqcli.export.tables.committing import commit_patiently
from rmqcli.export.tables.progress import Batch, Progress
from rmqcli.export.tables.table import Table, TableFile, TablePlace, TableState, added_fields
from rmqcli.export.transform.decoding import REASON
from rmqcli.export.transform.transform import Transform
from rmqcli.render.output import warn

COLUMNS = (
    *("topic", "broker_name", "queue_id", "queue_offset", "msg_id", "store_timestamp", "body"),
    REASON,
)


class Quarantine:
    """A table or a folder that gets the rows. `name` is that on the command line, with an absolute path."""

    def __init__(self, table: Table, name: str) -> None:
        self.name = name
        self._table = table
        self._layout = Layout()
        self._state: TableState | None = None
        self._files: dict[str, TableFile] = {}
        self._completed: Batch | None = None

    @property
    def shown(self) -> str:
        return self._table.shown

    @property
    def place(self) -> TablePlace:
        return self._table.place

    def open(self, main: Layout) -> Layout:
        """Prepare for files of a run whose main table has this layout. Return the layout of the files."""
        wanted = replace(
            main,
            partition_by=(),
            columns=COLUMNS,
            body_text=False,
            bloom_filters=(),
            transform=Transform(has_reasons=True),
        )
        self._layout = self._table.layout(replace(wanted, whole_rows=False))
        self._load()
        added_fields(self._state.columns if self._state else [], self._schema, self.shown)
        self._table.prepare(self._state, self._layout)
        return self._layout

    @property
    def _schema(self) -> Any:
        return self._table.schema(self._layout)

    def _load(self) -> None:
        self._state = self._table.load()

    def measure(self, names: Iterable[str]) -> list[FileEntry]:
        """Return entries of files whose names begin with ASIDE."""
        return [self._measured(name.removeprefix(ASIDE)) for name in names]

    def _measured(self, name: str) -> FileEntry:
        with self.place.open(name) as file:
            entry, footer = footer_entry(file, self.place.size(name), name)
        self._files[name] = TableFile(entry, footer)
        return msgspec.structs.replace(entry, path=ASIDE + name)

    def batch(self, before: Batch | None, run: str, files: Sequence[FileEntry]) -> Batch | None:
        """Return the entry of these files in the main table's commit; without files, the previous entry."""
        if not files:
            return before
        names = [file.path.removeprefix(ASIDE) for file in files]
        return Batch(before.chain if before else run, run, self.name, names)

    def complete(self, batch: Batch) -> None:
        """Add the files of a batch unless they are already there."""
        if batch == self._completed or self._has(batch):
            return
        try:
            for name in batch.files:
                if name not in self._files:
                    self._measured(name)
        except (FileNotFoundError, StorageNotFound):
            if not isinstance(self._table, FolderTable):  # whose files may have been moved since
                warn(f"{self.shown}: lacks bodies that did not decode: {batch.files[0]} was removed")
            return
        for name in batch.files:
            self.place.finish(name)
        commit_patiently(self.shown, lambda: self._commit(batch), lambda: self._is_there(batch), self._load)
        self._completed = batch
        self._files.clear()

    def _has(self, batch: Batch) -> bool:
        progress = self._state.progress if self._state else None
        return progress is not None and progress.done.get(batch.chain) == batch.run

    def _is_there(self, batch: Batch) -> bool:
        self._load()
        return self._has(batch)

    def _commit(self, batch: Batch) -> None:
        before = self._state.progress if self._state else None
        progress = Progress(batch.run, done={**(before.done if before else {}), batch.chain: batch.run})
        added = added_fields(self._state.columns if self._state else [], self._schema, self.shown)
        self._table.commit(self._state, [self._files[name] for name in batch.files], progress, added)

    def drop(self, run: str) -> None:
        """Remove files of a run that no commit refers to."""
        self.place.drop(run)


class FolderTable:
    """A folder of Parquet files as a table: files that are finished are in it."""

    def __init__(self, out: Location) -> None:
        self.shown = str(out)
        self._out = out
        self.place: TablePlace = StorageFiles(out) if isinstance(out, Storage) else LocalPlace(out, str(out))

    def layout(self, wanted: Layout) -> Layout:
        return wanted

    def schema(self, layout: Layout) -> Any:
        return layout.schema("")

    def load(self) -> TableState | None:
        return None

    def prepare(self, state: TableState | None, layout: Layout) -> None:
        if not isinstance(self._out, Storage):
            if self._out.exists() and not self._out.is_dir():
                raise TableMismatch(f"--quarantine {self.shown}: is a file; name a folder")
            refuse_store(self._out)
            self._out.mkdir(parents=True, exist_ok=True)

    def commit(
        self, state: TableState | None, files: Sequence[TableFile], progress: Progress, added: Sequence[Any]
    ) -> None:
        """Do nothing: the files have their final names."""

    def has_run(self, run: str, since: TableState | None) -> bool:
        return False


class StorageFiles(NamedTuple):
    """Files of an object store, under other names until they are finished."""

    folder: Storage

    @property
    def shown(self) -> str:
        return str(self.folder)

    def create(self, name: str) -> Any:
        return self.folder.create(name + UNFINISHED)

    def open(self, name: str) -> Any:
        return self.folder.open(self._there(name))

    def size(self, name: str) -> int:
        return self.folder.size(self._there(name))

    def _there(self, name: str) -> str:
        return name if self.folder.size(name) >= 0 else name + UNFINISHED

    def finish(self, name: str) -> None:
        with suppress(StorageNotFound):  # finished before
            self.folder.copy(name + UNFINISHED, self.folder / name)
        self.folder.delete(name + UNFINISHED)

    def drop(self, prefix: str) -> None:
        for name in self.folder.names():
            if name.startswith(prefix):
                self.folder.delete(name)
