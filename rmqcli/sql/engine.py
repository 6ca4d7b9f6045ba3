"""DuckDB, shut in: it has the tables that it is given, and nothing else.

It has no access to files and to the network, loads no extension, and its settings are locked. What does not
fit into its memory is kept in a temporary folder, which goes with it.
"""

from __future__ import annotations

import tempfile
from typing import Any

import duckdb

from rmqcli.sql.errors import InvalidQuery
from rmqcli.sql.table import TopicTable
from rmqcli.sql.translating import failure_of

BATCH_ROWS = 256
"""Rows of a result that are in memory at once, beside what DuckDB holds."""
EVERYTHING = "rmq.messages"
_BASE = "~"
"""The first character of the tables below the views. Names of topics have none."""
_ALIASES = {"store_time": "store_timestamp", "born_time": "born_timestamp"}
"""Short names of columns, which a view has if a statement contains one of them."""
_READING = frozenset(("SELECT", "EXPLAIN", "MULTI"))
"""Statements that read; DESCRIBE, SHOW and SUMMARIZE are SELECT for DuckDB, PIVOT is several."""
_PREPARE = "PREPARE rmq AS "


class Engine:
    """A database in memory. Errors are those of DuckDB, unless it says otherwise."""

    def __init__(self, memory: int, everything: TopicTable) -> None:
        """`memory` is in bytes; `everything` is the table of all messages."""
        self._folder = tempfile.TemporaryDirectory(prefix="rmq-sql-")
        self._duckdb = _connected(memory, self._folder.name)
        self._duckdb.register(_BASE, everything)
        self._duckdb.execute("CREATE SCHEMA rmq")
        self._duckdb.execute(f'CREATE VIEW {EVERYTHING} AS FROM "{_BASE}"')
        self._duckdb.execute("SET lock_configuration = true")

    def close(self) -> None:
        self._duckdb.close()
        self._folder.cleanup()

    def interrupt(self) -> None:
        """End what runs, from any thread."""
        self._duckdb.interrupt()

    def check(self, statement: str) -> None:
        """Raise InvalidQuery if a text is not one statement, or one that does not only read."""
        kind = self._kind(statement)
        if kind not in _READING:
            raise InvalidQuery(
                f"{kind} is refused: a query only reads (SELECT, DESCRIBE, SHOW TABLES, EXPLAIN)"
            )

    def _kind(self, statement: str) -> str:
        found = self._duckdb.extract_statements(statement)
        if len(found) != 1:
            raise InvalidQuery(f"{len(found)} statements: expected one")
        return str(found[0].type.name)

    def add(self, name: str, table: TopicTable, statement: str) -> None:
        """Add a topic as the statement wants it."""
        self._duckdb.register(_BASE + name, table)
        aliases = [f"{column} AS {short}" for short, column in _ALIASES.items() if short in statement.lower()]
        columns = ", ".join(["*", *aliases])
        self._duckdb.execute(
            f"CREATE TEMP VIEW {_quoted(name)} AS SELECT {columns} FROM {_quoted(_BASE + name)}"
        )

    def remove(self, name: str) -> None:
        self._duckdb.execute(f"DROP VIEW {_quoted(name)}")
        self._duckdb.unregister(_BASE + name)

    def open(self, statement: str) -> Any:
        """Return a reader of record batches."""
        try:
            relation = self._duckdb.sql(statement)
        except duckdb.Error:
            self._bind(statement)
            raise
        return relation.to_arrow_reader(BATCH_ROWS)

    def _bind(self, statement: str) -> None:
        """Raise SqlError, with the place that a relation leaves out, if a statement cannot be bound."""
        prefix = "" if self._kind(statement) == "EXPLAIN" else _PREPARE
        try:
            self._duckdb.execute(prefix + statement)
        except duckdb.Error as error:
            raise failure_of(error, statement, len(prefix)) from error
        if prefix:
            self._duckdb.execute("DEALLOCATE rmq")


def _connected(memory: int, folder: str) -> Any:
    found = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory}B",
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        },
    )
    for setting in ("enable_external_access = false", "TimeZone = 'UTC'", "errors_as_json = true"):
        found.execute(f"SET {setting}")
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
