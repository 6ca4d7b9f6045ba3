"""A condition over delay levels; over their messages, when it names anything that levels do not have: `due` (ms), the columns that
a message has in an export, and its properties.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from typing import Any, cast

from rmqcli.store.read.pending import DelayedMessage, DelayLevel
from rmqcli.store.select.log_filter import Columns
from rmqcli.store.select.row_filter import condition, row_test

__all__ = ["LEVEL_COLUMNS", "DelayCondition"]

LEVEL_COLUMNS = ("level", "delay", "pending", "offset", "max_offset", "first_due", "last_due")


class DelayCondition:
    """None takes everything."""

    def __init__(self, where: str | None) -> None:
        """SelectorError when it cannot be read."""
        predicate = None if where is None else condition(where)
        of_levels = predicate is None or predicate.names.issubset(LEVEL_COLUMNS)
        self._takes = row_test(LEVEL_COLUMNS, where if of_levels else None)
        self._predicate = None if of_levels else predicate

    @property
    def is_of_messages(self) -> bool:
        return self._predicate is not None

    def takes(self, row: Sequence[Any]) -> bool:
        """The row of a level."""
        return self._takes(row)

    def takes_message(self, level: DelayLevel, one: DelayedMessage) -> bool:
        if self._predicate is None:
            return True
        values = dict(zip((*LEVEL_COLUMNS, "due"), (*level.row, one.due), strict=True))
        texts = {name: str(value) for name, value in values.items() if value is not None}
        return self._predicate.matches(ChainMap(texts, cast(Any, Columns(one.message))))
