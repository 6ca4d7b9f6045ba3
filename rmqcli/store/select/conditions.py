"""SQL92 conditions over the rows of any table of a store, and over delay levels and their messages.

Columns are named as in an export: `queueId` in JSON is `queue_id` here. Values missing from a row are NULL.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any, cast

from rmqcli.codec.errors import SelectorError
from rmqcli.codec.records.filter import Columns, condition
from rmqcli.store.read.pending import DelayedMessage, DelayLevel

_CAPITAL = re.compile(r"(?<!^)[A-Z]")


def column_name(key: str) -> str:
    """Convert `maxOffset` to `max_offset`."""
    return _CAPITAL.sub(lambda match: f"_{match[0]}", key).lower()


def row_test(keys: Sequence[str], where: str | None) -> Callable[[Sequence[Any]], bool]:
    """Return a test of rows; None accepts all rows.

    Raises SelectorError if the text is not a condition, or names an unknown column.
    """
    if where is None:
        return lambda row: True
    predicate = condition(where)
    names = [column_name(key) for key in keys]
    unknown = sorted(predicate.names.difference(names))
    if unknown:
        raise SelectorError(
            f"the condition {where!r}: there is no column {unknown[0]}; there are {', '.join(names)}"
        )

    def meets(row: Sequence[Any]) -> bool:
        known = {name: _text(value) for name, value in zip(names, row, strict=True) if value is not None}
        return predicate.matches(known)

    return meets


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


LEVEL_COLUMNS = ("level", "delay", "pending", "offset", "max_offset", "first_due", "last_due")


class DelayCondition:
    """A condition over delay levels.

    One that names other columns is applied to their messages: it may then also name `due` (ms), the columns
    of an export, and properties. None accepts everything.
    """

    def __init__(self, where: str | None) -> None:
        """Raise SelectorError if the condition does not parse."""
        predicate = None if where is None else condition(where)
        of_levels = predicate is None or predicate.names.issubset(LEVEL_COLUMNS)
        self._takes = row_test(LEVEL_COLUMNS, where if of_levels else None)
        self._predicate = None if of_levels else predicate

    @property
    def is_of_messages(self) -> bool:
        return self._predicate is not None

    def takes(self, row: Sequence[Any]) -> bool:
        return self._takes(row)

    def takes_message(self, level: DelayLevel, one: DelayedMessage) -> bool:
        if self._predicate is None:
            return True
        values = dict(zip((*LEVEL_COLUMNS, "due"), (*level.row, one.due), strict=True))
        texts = {name: str(value) for name, value in values.items() if value is not None}
        return self._predicate.matches(ChainMap(texts, cast(Any, Columns(one.message))))
