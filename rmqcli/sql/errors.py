"""Errors of queries."""

from __future__ import annotations

from collections.abc import Collection


class SqlError(Exception):
    """A query that failed; the message is one line."""


class InvalidQuery(SqlError):
    """A query that cannot run: its text is wrong, or it asks for more than reading; nothing was read."""


class UnknownTable(SqlError):
    """A table that is no topic; `known` are the topics that are there."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        super().__init__(f"topic {name} not found; list the tables with: show tables")
        self.missing = ("topic", name)
        self.known = known


class ReadAgain(SqlError):
    """The consume queues of a store turned out to be wrong while rows were read by them.

    From now on the store is read without them, so the same query can be run again.
    """
