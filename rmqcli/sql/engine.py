"""DuckDB in isolation: it can access only the given tables. Ctrl-C ends a statement."""

from __future__ import annotations

import queue
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast

import duckdb
import pyarrow as pa

from rmqcli.render.output import warn
from rmqcli.sql.errors import InvalidQuery, ReadAgain, SqlError, UnknownTable, failure_of
from rmqcli.sql.portal import Cancelled
from rmqcli.sql.result import Result, Show
from rmqcli.sql.stores import Bounds, bounds_of
from rmqcli.sql.table import TopicTable

# DuckDB in isolation: it can access the given tables, and nothing else.
#
# It has no access to files and to the network, loads no extension, and its settings are locked. Data that
# does not fit into its memory is kept in a temporary folder, which is removed with it.

BATCH_ROWS = 256
"""The rows of a result that are in memory at once, in addition to the memory of DuckDB.

A row may have a body of 4 MiB.
"""
EVERYTHING = "rmq.messages"
_BASE = "~"
"""The first character of the tables below the views. No topic name contains it."""
_ALIASES = {"store_time": "store_timestamp", "born_time": "born_timestamp"}
"""Short names of columns, which a view has if a statement contains one of them."""
_READING = frozenset(("SELECT", "EXPLAIN", "MULTI"))
"""Statements that only read. For DuckDB, DESCRIBE, SHOW and SUMMARIZE are SELECT, and PIVOT is several."""
_PREPARE = "PREPARE rmq AS "


class Engine:
    """A database in memory. Its errors are those of DuckDB unless stated otherwise."""

    def __init__(self, memory: int, everything: TopicTable) -> None:
        """`memory` is in bytes; `everything` is the table of all messages."""
        self._folder = tempfile.TemporaryDirectory(prefix="rmq-sql-")
        self._duckdb = _connected(memory, self._folder.name)
        self._duckdb.register(_BASE, everything)
        self._duckdb.execute("CREATE SCHEMA rmq")
        self._duckdb.execute(f'CREATE VIEW {EVERYTHING} AS FROM "{_BASE}"')
        # Last, because no setting can be changed after it, not even by a statement of the user.
        self._duckdb.execute("SET lock_configuration = true")

    def close(self) -> None:
        self._duckdb.close()
        self._folder.cleanup()

    def interrupt(self) -> None:
        """End the running statement, from any thread."""
        self._duckdb.interrupt()

    def check(self, statement: str) -> None:
        """Raise InvalidQuery if a text is not a single statement, or if it does not only read."""
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
        """Add the table of a topic, with the aliases that the statement uses."""
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
        """Raise SqlError, with the position that a relation leaves out, if a statement cannot be bound."""
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


T = TypeVar("T")
Outcome = tuple[Any, BaseException | None]
Job = tuple[Callable[[], Any], "queue.SimpleQueue[Outcome]"]

PATIENCE = 0.5
"""The seconds after Ctrl-C within which the work can end; after that, nobody waits for it."""


class Worker:
    """Runs work in one thread, because memory allocated by several threads in turn would not be reused."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        threading.Thread(target=_work, args=(self._jobs,), name="rmq sql", daemon=True).start()

    def run(self, work: Callable[[], T], cancel: Callable[[], None]) -> T:
        """Return the result of `work`, or raise its error.

        Ctrl-C calls `cancel` and raises KeyboardInterrupt; a signal whose handler raises SystemExit does the
        same. Work that did not end delays the next call.
        """
        ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._jobs.put((work, ended))
        try:
            found, error = ended.get()
        except (KeyboardInterrupt, SystemExit):
            cancel()
            with suppress(queue.Empty):
                ended.get(timeout=PATIENCE)
            raise
        if error is not None:
            raise error
        return cast(T, found)

    def end(self) -> None:
        """End the thread after its work."""
        self._jobs.put(None)


def _work(jobs: queue.SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        work, ended = job
        try:
            ended.put((work(), None))
        except BaseException as error:
            ended.put((None, error))
        del job, work, ended  # frees the results and closures while waiting


# A session over topics: one statement at a time, each of which Ctrl-C ends.
#
# A topic becomes a table when a statement refers to it, so a store of ten thousand topics costs nothing.

_SHOW_TABLES = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)


class Source(Protocol):
    """The topics of store folders or of a cluster."""

    @property
    def names(self) -> Sequence[str]: ...
    def has(self, name: str) -> bool: ...
    def scan(self, bounds: Bounds, check: Callable[[], None]) -> Iterator[Any]: ...
    def cancel(self) -> None: ...


class Session:
    """Runs statements on a source; a context manager. `memory` is the limit of DuckDB in bytes."""

    def __init__(self, source: Source, memory: int) -> None:
        self._source = source
        self._memory = memory
        self._cancelled = threading.Event()
        self._failures: list[BaseException] = []

    def __enter__(self) -> Self:
        self._engine = Engine(self._memory, TopicTable(partial(self._scan, None)))
        self._worker = Worker()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.end()
        self._engine.close()

    def run(self, statement: str, show: Show) -> None:
        """Run one statement and pass its result to `show`. Ctrl-C ends it at once.

        Raises InvalidQuery, UnknownTable, SqlError, and the errors of the source.
        """
        if _SHOW_TABLES.fullmatch(statement):
            tables = pa.record_batch([pa.array(self._names(), pa.string())], names=["name"])
            show(Result(tables.schema, iter([tables])))
            return
        self._call(lambda: self._engine.check(statement), statement)
        try:
            self._run(statement, show)
        except ReadAgain as error:
            warn(f"{error}; the whole commit log is read instead")
            self._run(statement, show)

    def _names(self) -> Sequence[str]:
        return self._call(lambda: self._source.names)

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
        """Yield the reader of the rows of a statement. Its topics are tables until the end of the block."""
        topics: list[str] = []
        try:
            reader = self._opened(statement, topics)
            try:
                yield reader
            finally:
                reader.close()
        finally:
            for name in topics:
                self._engine.remove(name)

    def _opened(self, statement: str, topics: list[str]) -> Any:
        """Return the reader. Adds missing topics as tables until the statement can be bound."""
        while True:
            try:
                return self._call(lambda: self._engine.open(statement), statement)
            except UnknownTable as error:
                name = error.missing[1]
                self._require(name, statement, topics)
                self._engine.add(name, TopicTable(partial(self._scan, name)), statement)
                topics.append(name)

    def _require(self, name: str, statement: str, topics: Sequence[str]) -> None:
        if name in topics:
            raise InvalidQuery(f"{name}: of all tables only {EVERYTHING} is in a schema")
        if not self._call(lambda: self._source.has(name)):
            raise UnknownTable(name, self._names())
        # SQL ignores case, so it would confuse these topics.
        others = (one for one in self._names() if one != name and one.casefold() == name.casefold())
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
        """Yield batches for a table. Errors are kept, because DuckDB would turn them into texts."""
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
        """Return the result of `work`, which uses DuckDB or the source.

        Raises KeyboardInterrupt soon after Ctrl-C. An error of a scan or of the operating system is raised
        unchanged.
        """
        try:
            return self._worker.run(work, self._cancel)
        except (duckdb.Error, pa.ArrowException, OSError, SqlError) as error:
            if self._failures:
                raise self._failures[0] from None
            if isinstance(error, SqlError) or getattr(error, "errno", None) is not None:
                raise
            raise failure_of(error, statement) from error

    def _cancel(self) -> None:
        self._cancelled.set()
        self._engine.interrupt()
        self._source.cancel()


def _next(reader: Any) -> Any | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
