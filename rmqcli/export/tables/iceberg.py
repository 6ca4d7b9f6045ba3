"""Apache Iceberg tables, in any catalog that pyiceberg is configured for (`.pyiceberg.yaml`, `PYICEBERG_…`).

Files are added to a table by their names, so their columns have no field ids; the table has a name mapping.
The offsets are in the summary of the snapshot. A commit requires the snapshot that was read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rmqcli.export.errors import ExportError, TableError, TableMismatch, TableNotFound
from rmqcli.export.output.folder import UNFINISHED, drop_files
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.storage import CONNECT_SECONDS, REQUEST_SECONDS, s3_endpoint
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

_MARK = "rmq.exported"
"""The table property that indicates that one of its snapshots must have offsets."""
_RETRIES = "commit.retry.num-retries"


def _s3_properties() -> dict[str, str]:
    """Return properties of S3 that a catalog gets unless it has others; pyiceberg has no such defaults."""
    endpoint = s3_endpoint()
    limits = {"s3.connect-timeout": str(CONNECT_SECONDS), "s3.request-timeout": str(REQUEST_SECONDS)}
    return {**limits, "s3.endpoint": endpoint} if endpoint else limits


class DataPlace(NamedTuple):
    """The data files of a table, with the properties of their storage."""

    shown: str
    location: str
    table_properties: Mapping[str, str]
    io_properties: Mapping[str, str]

    def path(self, name: str) -> str:
        from pyiceberg.table.locations import load_location_provider

        provider = load_location_provider(self.location, dict(self.table_properties))
        return provider.new_data_location(name)

    @property
    def _io(self) -> Any:
        from pyiceberg.io import load_file_io

        return load_file_io(dict(self.io_properties), self.location)

    def create(self, name: str) -> Any:
        with explained(self.shown):
            return self._io.new_output(self._unfinished(name)).create()

    def open(self, name: str) -> Any:
        with explained(self.shown):
            return self._io.new_input(self._unfinished(name)).open()

    def size(self, name: str) -> int:
        with explained(self.shown):
            return len(self._io.new_input(self._unfinished(name)))

    def stream(self, path: str) -> Any:
        """Open a file of the table."""
        with explained(self.shown):
            return self._io.new_input(path).open()

    def footer(self, path: str) -> Any:
        """Return the footer of a file of the table."""
        from pyarrow import parquet

        with explained(self.shown), self.stream(path) as file:
            return parquet.read_metadata(file)

    def read(self, path: str) -> Any:
        """Return the rows of a file of the table."""
        from pyarrow import parquet

        with explained(self.shown), self.stream(path) as file:
            return parquet.ParquetFile(file).read()

    @property
    def is_local(self) -> bool:
        return urlsplit(self.location).scheme in ("", "file")

    def _unfinished(self, name: str) -> str:
        """Return the path used until `finish`. In a storage, a file appears only when it is complete."""
        path = self.path(name)
        return path + UNFINISHED * (self.is_local and not _local(path).exists())

    def finish(self, name: str) -> None:
        """Give a file of a local folder its final name, if it does not have it yet."""
        if self.is_local:
            _local(self._unfinished(name)).rename(_local(self.path(name)))

    def drop(self, prefix: str) -> None:
        """Remove files of a local folder. Those in a storage are left to `remove_orphan_files`."""
        if self.is_local:
            drop_files(_local(self.location), prefix)


def _local(uri: str) -> Path:
    return Path(urlsplit(uri).path)


class IcebergTable:
    """The table CATALOG.NAMESPACE.NAME, partitioned by topic and by day or hour. Namespaces may have several
    levels.
    """

    def __init__(self, name: str, by: str = "day") -> None:
        catalog, _, self._name = name.partition(".")
        self.shown = f"iceberg:{name}"
        if not catalog or not all(self._name.split(".")) or "." not in self._name:
            raise TableMismatch(f"{self.shown}: expected iceberg:CATALOG.NAMESPACE.NAME")
        self._by = by
        self._catalog_name = catalog
        self._layout = Layout()
        self._place: DataPlace | None = None

    @cached_property
    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        name = self._catalog_name
        with explained(self.shown):
            try:
                catalog = load_catalog(name)
            except ValueError as error:
                raise TableMismatch(
                    f"{self.shown}: catalog {name} is not configured (.pyiceberg.yaml or "
                    f"PYICEBERG_CATALOG__{name.upper()}__URI): {error}"
                ) from error
        for key, value in _s3_properties().items():
            catalog.properties.setdefault(key, value)
        return catalog

    @property
    def place(self) -> TablePlace:
        assert self._place is not None, "prepare comes first"
        return self._place

    def layout(self, wanted: Layout) -> Layout:
        return replace(needed(wanted), partition_by=(self._by, "topic"), whole_rows=True)

    def schema(self, layout: Layout) -> Any:
        return columns(layout)

    def load(self) -> TableState | None:
        from pyiceberg import exceptions

        with explained(self.shown):
            try:
                table = self._catalog.load_table(self._name)
            except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
                return None
            names = {field.field_id: field.name for field in table.schema().fields}
            there = [f"{one.transform}({names.get(one.source_id)})" for one in table.spec().fields]
            known = table.schema().as_arrow()
        require_partitions(there, [f"{self._by}(store_timestamp)", "identity(topic)"], self.shown)
        return self._state(table, known)

    def _state(self, table: Any, known: Any) -> TableState:
        """Return the state of the table.

        Raises TableError if the snapshot with the offsets no longer exists.
        """
        for place, snapshot in enumerate(_ancestors(table)):
            text = snapshot.summary and snapshot.summary.additional_properties.get(PROPERTY)
            if text:
                is_fading = place > 0 and time.time() * 1000 - snapshot.timestamp_ms > REFRESH_MS
                return TableState(table, known, Progress.read(text, self.shown), is_fading)
        if _MARK in table.properties:
            raise TableError(
                f"{self.shown}: holds rows of an export, but no snapshot has its offsets (expired, or rolled back); "
                f"export to a new table, or remove the property {_MARK} to begin at the start of the range"
            )
        return TableState(table, known, None)

    def has_run(self, run: str, since: TableState | None) -> bool:
        now = self.load()
        first = since.handle.metadata.current_snapshot_id if since else None
        for snapshot in _ancestors(now.handle) if now else ():
            if snapshot.snapshot_id == first:
                break
            text = snapshot.summary and snapshot.summary.additional_properties.get(PROPERTY)
            if text and Progress.read(text, self.shown).run == run:
                return True
        return False

    def prepare(self, state: TableState | None, layout: Layout) -> None:
        self._layout = layout
        with explained(self.shown):
            table = state.handle if state else self._new()._table
            self._place = DataPlace(
                self.shown, table.location(), dict(table.properties), dict(table.io.properties)
            )

    def _new(self) -> Any:
        """Return a transaction that creates the table together with its first rows."""
        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        location = self._place and self._place.location
        creating = self._catalog.create_table_transaction(
            self._name, schema=self.schema(self._layout), location=location
        )
        with creating.update_spec() as update:
            update.add_field("store_timestamp", self._by)
            update.add_identity("topic")
        return creating

    def commit(
        self, state: TableState | None, files: Sequence[TableFile], progress: Progress, added: Sequence[Any]
    ) -> None:
        import pyarrow as pa

        assert self._place is not None
        paths = [self._place.path(file.entry.path) for file in files]
        with explained(self.shown):
            if state is None:
                transaction = self._new()
            else:
                transaction = _once(state.handle).transaction()
                if added:
                    with transaction.update_schema() as update:
                        update.union_by_name(pa.schema(added))
            transaction.set_properties({_MARK: "true"})
            transaction.add_files(paths, {PROPERTY: progress.text}, check_duplicate_files=False)
            transaction.commit_transaction()

    def current(self) -> tuple[Any, DataPlace, list[Any]]:
        """Return the table as the library sees it, its location, and the files of the current snapshot, as
        pyiceberg plans them, in the order of their paths.
        """
        table = self._loaded()
        with explained(self.shown):
            found = sorted(table.scan().plan_files(), key=lambda one: str(one.file.file_path))
            place = DataPlace(self.shown, table.location(), dict(table.properties), dict(table.io.properties))
        return table, place, found

    def files(self) -> tuple[DataPlace, list[Any]]:
        """Return the location of the table, and the files to compact.

        Files of other partitions than the current ones, and those with rows that were deleted, are left out.
        """
        table, place, found = self.current()
        spec = table.spec().spec_id
        return place, [one for one in found if not one.delete_files and one.file.spec_id == spec]

    def has(self, name: str) -> bool:
        """Return True if a file of this name is in the current snapshot."""
        place, found = self.files()
        return place.path(name) in {one.file.file_path for one in found}

    def _loaded(self) -> Any:
        from pyiceberg import exceptions

        with explained(self.shown):
            try:
                return self._catalog.load_table(self._name)
            except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
                raise TableNotFound(f"{self.shown}: no such table") from None

    def replace(self, old: Sequence[Any], names: Sequence[str]) -> None:
        """Replace files by others with the same rows, in a snapshot that has the offsets of its parent.

        Raises CommitConflict if others committed meanwhile, TableError if some of the files are gone.
        """
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        table = _once(self._loaded())
        place = DataPlace(self.shown, table.location(), dict(table.properties), dict(table.io.properties))
        state = self._state(table, None)
        said = {PROPERTY: state.progress.text} if state.progress else {}
        with explained(self.shown):
            transaction = table.transaction()
            with transaction.update_snapshot(snapshot_properties=said).overwrite() as snapshot:
                for file in old:
                    snapshot.delete_data_file(file)
                for name in names:
                    snapshot.append_data_file(
                        parquet_file_to_data_file(table.io, transaction.table_metadata, place.path(name))
                    )
            transaction.commit_transaction()


def _once(table: Any) -> Any:
    """Prevent the library from repeating a commit of this table on another snapshot.

    The offsets of the commit would be wrong there. The setting applies only in this process.
    """
    properties = {**table.metadata.properties, _RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _ancestors(table: Any) -> Iterator[Any]:
    """Yield snapshots, newest first, as far back as they are kept."""
    from pyiceberg.table.snapshots import ancestors_of

    return iter(ancestors_of(table.current_snapshot(), table.metadata))


@contextmanager
def explained(table: str) -> Iterator[None]:
    """Turn errors of catalogs and storages, which have no common type, into those of this package."""
    from pyiceberg import exceptions

    try:
        yield
    except (exceptions.CommitFailedException, exceptions.TableAlreadyExistsError) as error:
        raise CommitConflict(str(error)) from error
    except (ExportError, CommitConflict):
        raise
    except Exception as error:
        raise table_error(table, " ".join(str(error).split()) or type(error).__name__) from error
