"""A session over topics: one statement at a time, each of which Ctrl-C ends.

A topic becomes a table when a statement asks for it, so a store of ten thousand topics costs nothing.
"""

from __future__ import annotations

import re
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
from rmqcli.sql.engine import EVERYTHING, Engine
from rmqcli.sql.errors import InvalidQuery, ReadAgain, SqlError, UnknownTable
from rmqcli.sql.interrupting import Worker
from rmqcli.sql.portal import Cancelled
from rmqcli.sql.result import Result, Show
from rmqcli.sql.table import TopicTable
from rmqcli.sql.translating import failure_of

T = TypeVar("T")

_SHOW_TABLES = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)


class Source(Protocol):
    """The topics of store folders or of a cluster."""

    @property
    def names(self) -> Sequence[str]: ...
    def has(self, name: str) -> bool: ...
    def scan(self, bounds: Bounds, check: Callable[[], None]) -> Iterator[Any]: ...
    def cancel(self) -> None: ...


class Session:
    """A context manager; `memory` is the limit of DuckDB in bytes."""

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
        """Run one statement and passes its result to `show`. Ctrl-C ends it at once.

        Raises InvalidQuery, UnknownTable, SqlError, and what the source raises.
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
        """Yield the reader of a statement's rows. Its topics are tables as long."""
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
        """Return the reader; add the topics that are asked for until the statement can be bound."""
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
        # SQL ignores case, so it would take one of these topics for the other.
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
        """Yield batches for a table; DuckDB would make texts of errors, so they are kept."""
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
        """Return what `work` returns; it uses DuckDB or the source. Raises KeyboardInterrupt soon after
        Ctrl-C.

        An error of a scan is raised as it was; one of the operating system, too.
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
