"""Errors of queries."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec


class SqlError(Exception):
    """A query failed. The message is one line."""


class InvalidQuery(SqlError):
    """A query cannot run, because it is invalid or does more than read. Nothing was read."""


class UnknownTable(SqlError):
    """A table is not a topic; `known` are the existing topics."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        super().__init__(f"topic {name} not found; list the tables with: show tables")
        self.missing = ("topic", name)
        self.known = known


class ReadAgain(SqlError):
    """The consume queues of a store turned out to be wrong while rows were read through them.

    From then on, the store is read without them, so the same query can be run again.
    """


# DuckDB's errors as ours: one line, with the position in the query if DuckDB reports it.
#
# DuckDB writes its errors as JSON (its setting errors_as_json), with the byte of the query and the name of a
# missing table.

_DOCUMENT = re.compile(r"\{.*\}", re.DOTALL)
_NOT_THE_QUERY = frozenset(("Out of Memory", "INTERNAL", "FATAL", "IO", "INTERRUPT"))
"""Kinds of errors that are not the fault of the query."""


def failure_of(error: Exception, statement: str, before: int = 0) -> SqlError:
    """Return the error of a statement as one of ours.

    `before`: the bytes that DuckDB received before the statement.
    """
    found = _document(str(error))
    text = str(found.get("exception_message", error)).strip()
    if found.get("type") == "Table" and "name" in found:
        return UnknownTable(str(found["name"]), ())
    kind = found.get("exception_type")
    if kind == "Out of Memory":
        return SqlError(f"{text.splitlines()[0]}; give it more with --memory")
    if kind is None or kind in _NOT_THE_QUERY:
        return SqlError(text)
    return InvalidQuery(f"{_place(found.get('position'), statement, before)}{text}")


def _document(text: str) -> Mapping[str, Any]:
    match = _DOCUMENT.search(text)
    try:
        found = msgspec.json.decode(match[0]) if match else {}
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _place(position: str | None, statement: str, before: int) -> str:
    """Return `line 1, column 8: `, counted from 1, or "" for an unknown position."""
    if position is None or not position.isdigit():
        return ""
    text = statement.encode()[: max(0, int(position) - before)].decode("utf-8", "ignore")
    return f"line {text.count(chr(10)) + 1}, column {len(text) - text.rfind(chr(10))}: "
