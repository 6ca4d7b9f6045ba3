"""Tables as tests see them: by their names on the command line, read by the libraries of the formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.local import write_stores
from rmqcli.export.output.folder import LocalPlace
from rmqcli.export.output.layout import Layout
from rmqcli.export.run import ExportSummary, StoreRows, stores_origin
from rmqcli.export.tables.naming import table_of
from rmqcli.export.tables.progress import Progress
from rmqcli.export.tables.run import attempts
from rmqcli.export.tables.table import CommitConflict, Table, TableFile, TableState, columns, needed
from tests.export.support import Row, java_rows, rows_of_table
from tests.support import JavaStore

TOPIC = "SeedNormal"


def expected(store: JavaStore) -> list[Row]:
    """Returns the rows of the dump that are in queues: prepared and rolled-back records are not."""
    found = [{**row, "broker_name": "broker-a"} for row in java_rows(store) if not row["sys_flag"] & 4]
    return sorted(found, key=lambda row: (row["topic"], row["queue_id"], row["queue_offset"]))


@dataclass(frozen=True)
class Lake(ABC):
    """A place for one table of a format."""

    folder: Path
    kind: ClassVar[str]
    package: ClassVar[str]

    @property
    @abstractmethod
    def name(self) -> str:
        """Returns the name for --table."""

    @abstractmethod
    def arrow(self) -> Any: ...

    @abstractmethod
    def matching(self, column: str, sign: str, value: Any) -> int:
        """Returns the number of rows that a reader finds with partitions and statistics."""

    @abstractmethod
    def polars(self) -> Any:
        """Returns a lazy frame of Polars."""

    @abstractmethod
    def create(self, columns: dict[str, Any], partitions: Sequence[str]) -> None:
        """Creates a table like an export's, except for these types and partitions (`topic` only)."""

    @abstractmethod
    def restore_first(self) -> None:
        """Makes the first version with rows the current one."""

    @abstractmethod
    def commits(self) -> int: ...

    @abstractmethod
    def compact(self) -> None:
        """Commits as other programs do: no row changes."""

    def rows(self) -> list[Row]:
        """Returns all rows by topic, queue and offset, without the column that a format adds."""
        table = self.arrow()
        found = rows_of_table(
            table.select([name for name in table.column_names if name not in ("day", "hour")])
        )
        return sorted(found, key=lambda row: (row["topic"], row["queue_id"], row["queue_offset"]))

    def places(self) -> list[tuple[str, int, int]]:
        return [(row["topic"], row["queue_id"], row["queue_offset"]) for row in self.rows()]

    def data_files(self) -> list[Path]:
        """Returns the files under the table, finished or not, whether a commit knows of them or not."""
        return sorted(self.folder.rglob("rmq-*.parquet*"))

    def _fields(self, columns: dict[str, Any]) -> Any:
        schema = table_of(self.name).schema(Layout())
        return pa.schema([field.with_type(columns.get(field.name, field.type)) for field in schema])


class DeltaLake(Lake):
    kind, package = "delta", "deltalake"

    @property
    def name(self) -> str:
        return f"delta:{self.folder}/t"

    def _table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(f"{self.folder}/t")

    def arrow(self) -> Any:
        return self._read()

    def matching(self, column: str, sign: str, value: Any) -> int:
        found: int = self._read(filters=[(column, sign, value)]).num_rows
        return found

    def polars(self) -> Any:
        import polars

        return polars.scan_delta(f"{self.folder}/t")

    def _read(self, **options: Any) -> Any:
        # Threads of Arrow that call the library's own file system abort the process when it ends.
        files = SubTreeFileSystem(f"{self.folder}/t", LocalFileSystem())
        return self._table().to_pyarrow_table(filesystem=files, **options)

    def create(self, columns: dict[str, Any], partitions: Sequence[str]) -> None:
        from deltalake import DeltaTable, Schema

        schema = Schema.from_arrow(self._fields(columns))
        DeltaTable.create(f"{self.folder}/t", schema, partition_by=list(partitions))

    def restore_first(self) -> None:
        self._table().restore(0)

    def commits(self) -> int:
        return len(self._table().history())

    def compact(self) -> None:
        self._table().alter.set_table_properties({"delta.appendOnly": "false"})


class Iceberg(Lake):
    kind, package = "iceberg", "pyiceberg"

    @property
    def name(self) -> str:
        return "iceberg:test.lake.t"

    def _table(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("test").load_table("lake.t")

    def arrow(self) -> Any:
        return self._table().scan().to_arrow()

    def matching(self, column: str, sign: str, value: Any) -> int:
        from pyiceberg import expressions as e

        kinds: dict[str, Any] = {"=": e.EqualTo, ">": e.GreaterThan, ">=": e.GreaterThanOrEqual}
        text = value.isoformat() if hasattr(value, "isoformat") else value
        return len(self._table().scan(row_filter=kinds[sign](column, text)).to_arrow())

    def polars(self) -> Any:
        import polars

        return polars.scan_iceberg(self._table())

    def create(self, columns: dict[str, Any], partitions: Sequence[str]) -> None:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("test")
        catalog.create_namespace_if_not_exists("lake")
        table = catalog.create_table("lake.t", self._fields(columns))
        with table.update_spec() as update:
            if "day" in partitions:
                update.add_field("store_timestamp", "day")
            update.add_identity("topic")

    def restore_first(self) -> None:
        table = self._table()
        first = min(table.snapshots(), key=lambda snapshot: snapshot.sequence_number)
        with table.manage_snapshots() as snapshots:
            snapshots.rollback_to_snapshot(first.snapshot_id)

    def commits(self) -> int:
        return len(self._table().snapshots())

    def compact(self) -> None:
        with self._table().transaction() as transaction:
            transaction.add_files([])

    def expire_first(self) -> None:
        table = self._table()
        first = min(table.snapshots(), key=lambda snapshot: snapshot.sequence_number)
        table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()


LAKES: dict[str, type[Lake]] = {kind.kind: kind for kind in (DeltaLake, Iceberg)}


def rows_of(store: JavaStore, **rows: Any) -> list[StoreRows]:
    """Returns what the command asks of a store."""
    chosen: dict[str, Any] = {
        "topics": frozenset({TOPIC}),
        "only_queued": True,
        "broker_name": "broker-a",
    } | rows
    return [StoreRows(store.root, RowFilter(**chosen))]


def add_rows(
    table: Table, wanted: Sequence[StoreRows], layout: Layout | None = None, *, resume: bool = False
) -> ExportSummary:
    """Adds rows of stores as the command does."""
    for run in attempts(table, stores_origin(wanted), layout or Layout(), resume=resume):
        with run:
            return write_stores(wanted, run)
    raise AssertionError


class ScriptedTable:
    """A table in memory, whose next commits end as `script` says: what it calls may raise, or commit for
    others.
    """

    shown = "scripted:t"

    def __init__(self, folder: Path) -> None:
        self.place = LocalPlace(folder, self.shown)
        self.versions: list[tuple[TableState, list[TableFile]]] = []
        self.script: list[Any] = []
        self.tries = 0

    def layout(self, wanted: Layout) -> Layout:
        return needed(wanted)

    def schema(self, layout: Layout) -> Any:
        return columns(layout)

    def load(self) -> TableState | None:
        return self.versions[-1][0] if self.versions else None

    def prepare(self, state: TableState | None, layout: Layout) -> None:
        self.place.folder.mkdir(exist_ok=True)

    def commit(
        self, state: TableState | None, files: Sequence[TableFile], progress: Progress, added: Sequence[Any]
    ) -> None:
        self.tries += 1
        if self.script:
            self.script.pop(0)()
        if state is not self.load():
            raise CommitConflict
        self.add(files, progress)

    def add(self, files: Sequence[TableFile], progress: Progress | None) -> None:
        state = TableState(len(self.versions), self.schema(Layout()), progress)
        self.versions.append((state, list(files)))

    def has_run(self, run: str, since: TableState | None) -> bool:
        later = [state for state, _ in self.versions[since.handle + 1 if since else 0 :]]
        return any(state.progress is not None and state.progress.run == run for state in later)

    @property
    def rows(self) -> int:
        return sum(file.entry.rows for _, files in self.versions for file in files)
