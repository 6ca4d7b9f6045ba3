"""Tables as tests see them: by their names on the command line, read by the libraries of the formats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.local import write_stores
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.places import LocalPlace
from rmqcli.export.run import ExportSummary, StoreRows, stores_origin
from rmqcli.export.tables.naming import table_of
from rmqcli.export.tables.progress import Progress
from rmqcli.export.tables.run import attempts
from rmqcli.export.tables.schema import columns, needed
from rmqcli.export.tables.table import CommitConflict, Table, TableFile, TableState
from tests.export.support import Row, rows_of_table
from tests.support import JavaStore

TOPIC = "SeedNormal"


class Lake(NamedTuple):
    """A place for one table."""

    kind: str
    folder: Path

    @property
    def name(self) -> str:
        return f"delta:{self.folder}/t"

    def arrow(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(f"{self.folder}/t").to_pyarrow_table()

    def rows(self) -> list[Row]:
        """Returns all rows by topic, queue and offset, without the column that a format adds."""
        table = self.arrow()
        names = [name for name in table.column_names if name != "day"]
        found = rows_of_table(table.select(names))
        return sorted(found, key=lambda row: (row["topic"], row["queue_id"], row["queue_offset"]))

    def matching(self, column: str, sign: str, value: object) -> int:
        """Returns the rows that a reader finds with partitions and statistics."""
        from deltalake import DeltaTable

        found: int = DeltaTable(f"{self.folder}/t").to_pyarrow_table(filters=[(column, sign, value)]).num_rows
        return found

    def create(self, columns: dict[str, Any], partitions: Sequence[str]) -> None:
        """Creates a table like an export's, except for these types and partitions."""
        from deltalake import DeltaTable, Schema

        fields = [field.with_type(columns.get(field.name, field.type)) for field in self._schema()]
        DeltaTable.create(
            f"{self.folder}/t", Schema.from_arrow(pa.schema(fields)), partition_by=list(partitions)
        )

    def _schema(self) -> Any:
        return table_of(self.name).schema(Layout())

    def restore_first(self) -> None:
        """Makes the first version of the table the current one."""
        from deltalake import DeltaTable

        DeltaTable(f"{self.folder}/t").restore(0)

    def places(self) -> list[tuple[str, int, int]]:
        return [(row["topic"], row["queue_id"], row["queue_offset"]) for row in self.rows()]

    def commits(self) -> int:
        from deltalake import DeltaTable

        return len(DeltaTable(f"{self.folder}/t").history())

    def data_files(self) -> list[Path]:
        """Returns the files under the table, whether a commit knows of them or not."""
        return sorted(self.folder.rglob("rmq-*.parquet"))


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

    def prepare(self, layout: Layout) -> None:
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
