"""Sessions over the Java stores, and the count of the bytes of their commit logs that a query reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rmqcli.codec.scan import arrow
from rmqcli.export import StoreSource
from rmqcli.sql.engine import Session
from rmqcli.sql.result import Result
from rmqcli.sql.stores import Stores
from tests.cli.conftest import cli, cluster, own_folders, rmq, topic
from tests.support import JavaStore

__all__ = ["Ask", "ask_of", "asking", "bytes_read", "cli", "cluster", "own_folders", "rmq", "topic"]

MEMORY = 1 << 28
Ask = Callable[[str], list[tuple[Any, ...]]]


def ask_of(session: Session) -> Ask:
    """Returns a function that runs a statement and returns its rows."""

    def ask(statement: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []

        def show(result: Result) -> None:
            rows.extend(tuple(row) for row in result.rows())

        session.run(statement, show)
        return rows

    return ask


@pytest.fixture
def asking() -> Iterator[Callable[[JavaStore], Ask]]:
    """Opens sessions over stores."""
    opened: list[Session] = []

    def ask(store: JavaStore, **options: bool) -> Ask:
        session = Session(Stores([StoreSource(store.root, "broker-a")], **options), MEMORY)
        opened.append(session.__enter__())
        return ask_of(session)

    yield ask
    for session in opened:
        session.__exit__(None, None, None)


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the bytes of the records of each batch."""
    counts: list[int] = []
    make = arrow._batch

    def counting(*arguments: Any) -> Any:
        batch = make(*arguments)
        counts.append(sum(batch["store_size"].to_pylist()))
        return batch

    monkeypatch.setattr(arrow, "_batch", counting)
    return counts
