"""A session of DuckDB over topics: one statement at a time, which only reads, with bounded memory.

A topic becomes a view when a statement asks for it, so a store of ten thousand topics costs nothing. DuckDB
has no access to files and to the network, and loads no extension; what does not fit into the memory is kept
in a temporary folder, which goes with the session.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import duckdb
import pyarrow as pa

from rmqcli.render.output import warn
from rmqcli.sql.bounds import Bounds, bounds_of
from rmqcli.sql.errors import InvalidQuery, ReadAgain, SqlError, UnknownTable
from rmqcli.sql.interrupting import Worker
from rmqcli.sql.portal import Cancelled
from rmqcli.sql.table import TopicTable
from rmqcli.sql.translating import failure_of
from rmqcli.sql.values import rows_of

T = TypeVar("T")

BATCH_ROWS = 1024
"""Rows of a result that are in memory at once, beside what DuckDB holds."""
EVERYTHING = "rmq.messages"
_ALL = "~"
"""The table below the view of all messages. Names with ~ cannot be topics."""
_ALIASES = {"store_time": "store_timestamp", "born_time": "born_timestamp"}
"""Short names of columns, which a view has if a statement contains one of them."""
_SHOW_TABLES = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)
_READING = frozenset(("SELECT", "EXPLAIN", "MULTI"))
"""Statements that read; DESCRIBE, SHOW and SUMMARIZE are SELECT for DuckDB, PIVOT is several."""
_PREPARE = "PREPARE rmq AS "


class Source(Protocol):
    """The topics of store folders or of a cluster."""

    @property
    def names(self) -> Sequence[str]: ...
    def has(self, name: str) -> bool: ...
    def scan(self, bounds: Bounds, check: Callable[[], None]) -> Iterator[Any]: ...
    def cancel(self) -> None: ...


class Result:
    """The rows of a statement, which can be read once. Column names are told apart by numbers."""

    def __init__(self, schema: Any, batches: Iterator[Any]) -> None:
        self.schema = pa.schema(
            [field.with_name(name) for field, name in zip(schema, _told_apart(schema.names), strict=True)]
        )
        self.begun = False
        self._batches = batches

    def batches(self) -> Iterator[Any]:
        """Yields record batches of at most BATCH_ROWS rows."""
        for batch in self._batches:
            self.begun = True
            yield batch.rename_columns(self.schema.names)

    def rows(self, *, lines: bool = False) -> Iterator[Sequence[Any]]:
        """Yields rows of values as they are shown: in JSON, or in tables and `lines`."""
        for batch in self.batches():
            yield from rows_of(batch, lines=lines)


Show = Callable[[Result], None]


class Session:
    """A context manager; `memory` is the limit of DuckDB in bytes."""

    def __init__(self, source: Source, memory: int) -> None:
        self._source = source
        self._memory = memory
        self._worker = Worker()
        self._cancelled = threading.Event()
        self._failures: list[BaseException] = []

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="rmq-sql-")
        self._duckdb = _connected(self._memory, self._folder.name)
        self._duckdb.register(_ALL, TopicTable(partial(self._scan, None)))
        self._duckdb.execute("CREATE SCHEMA rmq")
        self._duckdb.execute(f'CREATE VIEW {EVERYTHING} AS FROM "{_ALL}"')
        self._duckdb.execute("SET lock_configuration = true")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.end()
        self._duckdb.close()
        self._folder.cleanup()

    def run(self, statement: str, show: Show) -> None:
        """Runs one statement and passes its result to `show`. Ctrl-C ends it at once.

        Raises InvalidQuery, UnknownTable, SqlError, and what the source raises.
        """
        if _SHOW_TABLES.fullmatch(statement):
            tables = pa.record_batch([pa.array(self._names(), pa.string())], names=["name"])
            show(Result(tables.schema, iter([tables])))
            return
        self._call(lambda: self._check(statement), statement)
        try:
            self._run(statement, show)
        except ReadAgain as error:
            warn(f"{error}; the whole commit log is read instead")
            self._run(statement, show)

    def _names(self) -> Sequence[str]:
        return self._call(lambda: self._source.names)

    def _check(self, statement: str) -> None:
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

    def _run(self, statement: str, show: Show) -> None:
        self._cancelled = threading.Event()
        self._failures.clear()
        with self._answer(statement) as reader:
            result = Result(reader.schema, self._batches(reader, statement))
            try:
                show(result)
            except ReadAgain as error:
                if not result.begun:
                    raise
                raise SqlError(f"{error}; the rows are not complete: use --walk") from error

    @contextmanager
    def _answer(self, statement: str) -> Iterator[Any]:
        """Yields the reader of a statement's rows. Its topics are views as long."""
        topics: dict[str, str] = {}
        try:
            reader = self._opened(statement, topics)
            try:
                yield reader
            finally:
                reader.close()
        finally:
            for name in topics.values():
                self._duckdb.execute(f"DROP VIEW {_quoted(name)}")
                self._duckdb.unregister(f"{_ALL}{name}")

    def _opened(self, statement: str, topics: dict[str, str]) -> Any:
        """Returns the reader; adds the topics that are asked for until the statement can be bound."""
        while True:
            try:
                return self._call(lambda: self._open(statement), statement)
            except UnknownTable as error:
                self._add(error.missing[1], statement, topics)

    def _open(self, statement: str) -> Any:
        try:
            relation = self._duckdb.sql(statement)
        except duckdb.Error:
            if not self._failures:
                self._bind(statement)
            raise
        return relation.to_arrow_reader(BATCH_ROWS)

    def _bind(self, statement: str) -> None:
        """Raises the error of a statement that cannot be bound, with its place, which a relation leaves out."""
        prefix = "" if self._kind(statement) == "EXPLAIN" else _PREPARE
        try:
            self._duckdb.execute(prefix + statement)
        except duckdb.Error as error:
            raise failure_of(error, statement, len(prefix)) from error
        if prefix:
            self._duckdb.execute("DEALLOCATE rmq")

    def _add(self, name: str, statement: str, topics: dict[str, str]) -> None:
        if name.casefold() in topics:
            raise InvalidQuery(f"{name}: of all tables only {EVERYTHING} is in a schema")
        if not self._call(lambda: self._source.has(name)):
            raise UnknownTable(name, self._names())
        self._refuse_other_case(name, statement)
        topics[name.casefold()] = name
        self._duckdb.register(f"{_ALL}{name}", TopicTable(partial(self._scan, name)))
        aliases = [f"{column} AS {short}" for short, column in _ALIASES.items() if short in statement.lower()]
        columns = ", ".join(["*", *aliases])
        self._duckdb.execute(
            f"CREATE TEMP VIEW {_quoted(name)} AS SELECT {columns} FROM {_quoted(_ALL + name)}"
        )

    def _refuse_other_case(self, name: str, statement: str) -> None:
        """Raises InvalidQuery for two topics that are the same name for SQL, which ignores case."""
        others = [one for one in self._names() if one != name and one.casefold() == name.casefold()]
        other = next((one for one in others if one in statement), None)
        if other is not None:
            raise InvalidQuery(
                f"topics {name} and {other} differ only in case, which SQL ignores: use "
                f"(from {EVERYTHING} where topic = '{other}')"
            )

    def _batches(self, reader: Any, statement: str) -> Iterator[Any]:
        while (batch := self._call(partial(_next, reader), statement)) is not None:
            yield batch

    def _scan(self, topic: str | None, filter: Any | None) -> Iterator[Any]:
        """Yields batches for a table; DuckDB would make texts of errors, so they are kept."""
        cancelled = self._cancelled

        def check() -> None:
            if cancelled.is_set():
                raise Cancelled

        try:
            bounds = bounds_of(filter, self._source.names if topic is None else [topic])
            if bounds is not None:
                yield from self._source.scan(bounds, check)
        except GeneratorExit:
            raise
        except BaseException as error:
            self._failures.append(error)
            raise

    def _call(self, work: Callable[[], T], statement: str = "") -> T:
        """Returns what `work` returns; it uses DuckDB or the source. Raises KeyboardInterrupt soon after Ctrl-C."""
        try:
            return self._worker.run(work, self._cancel)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            found = self._failures[0] if self._failures else failure_of(error, statement)
        raise found

    def _cancel(self) -> None:
        self._cancelled.set()
        self._duckdb.interrupt()
        self._source.cancel()


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


def _next(reader: Any) -> Any | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _told_apart(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number, own = 1, name
        while own in found:
            own, number = f"{name}_{number}", number + 1
        found.append(own)
    return found
