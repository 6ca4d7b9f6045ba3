"""Conditions on messages that are evaluated here: SQL92 over columns and properties, and patterns of bodies."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

from codec.errors import SelectorError
from codec.message import MessageExt
from codec.message_queue import MessageQueue
from codec.selector import Predicate
from codec.store.record_filter import COLUMNS, Columns, condition
from rmqcli.client import PullResult
from rmqcli.flows.errors import InvalidInput
from rmqcli.flows.reading import Reader
from rmqcli.render.output import warn

Test = Callable[[MessageExt], bool]


def body_test(pattern: str) -> Test:
    """Return a test of bodies by a regular expression of Python; raise InvalidInput if it is none.

    Bodies are read as UTF-8; a byte that is no text matches itself.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = re.compile(pattern).search
    except re.error as error:
        raise InvalidInput(f"--grep {pattern!r}: {error}") from error
    return lambda message: search(message.body.decode("utf-8", "surrogateescape")) is not None


def where_condition(where: str) -> Predicate:
    """Parse a condition as `rmq inspect` does; raise InvalidInput."""
    try:
        predicate = condition(where)
    except SelectorError as error:
        raise InvalidInput(f"--where: {error}") from error
    for name, column in mistaken_columns(predicate).items():
        warn(f"--where: {name} is read as a property; the column is {column}")
    return predicate


def mistaken_columns(predicate: Predicate) -> dict[str, str]:
    """Return the names of properties that are spelled like columns, as JSON spells them, and these columns."""
    spelled = {
        name: re.sub(r"(?<=[a-z])[A-Z]", lambda one: f"_{one[0]}", name).lower() for name in predicate.names
    }
    return {name: column for name, column in spelled.items() if name not in COLUMNS and column in COLUMNS}


def names_columns(predicate: Predicate) -> bool:
    """Return whether the condition needs more than properties, which is all that brokers know."""
    return not predicate.names.isdisjoint(COLUMNS)


def where_test(predicate: Predicate) -> Test:
    return lambda message: predicate.matches(Columns(message))


def all_of(tests: list[Test]) -> Test:
    """Return a test that accepts what all of them accept."""
    return lambda message: all(test(message) for test in tests)


class MatchingReader:
    """A `Reader` of the messages that pass a test."""

    def __init__(self, reader: Reader, test: Test) -> None:
        self._reader = reader
        self._test = test
        self.message_queues = reader.message_queues
        self.min_offset = reader.min_offset
        self.max_offset = reader.max_offset
        self.search_offset = reader.search_offset

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_nums: int = 32,
        expression: str = "*",
        *,
        suspend: float = 0.0,
    ) -> PullResult:
        """Pull as the reader behind it does."""
        result = await self._reader.pull(queue, offset, max_nums, expression, suspend=suspend)
        return result._replace(messages=[message for message in result.messages if self._test(message)])
