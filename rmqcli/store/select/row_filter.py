"""Rows of any table of a store, filtered by an SQL92 condition over their columns.

Columns have the names of an export: `queueId` in JSON is `queue_id` here. What a row does not have IS NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from codec.errors import SelectorError
from codec.selector import Dialect, Predicate, parse_sql92

__all__ = ["column_name", "condition", "row_test"]

_CAPITAL = re.compile(r"(?<!^)[A-Z]")


def column_name(key: str) -> str:
    """`maxOffset` → `max_offset`."""
    return _CAPITAL.sub(lambda match: f"_{match[0]}", key).lower()


def condition(text: str) -> Predicate:
    """SelectorError, which names the condition, when it cannot be read."""
    try:
        return parse_sql92(text, Dialect.V5, whole=True)
    except SelectorError as error:
        raise SelectorError(f"the condition {text!r}: {error}") from None


def row_test(keys: Sequence[str], where: str | None) -> Callable[[Sequence[Any]], bool]:
    """Whether a row meets the condition; True without one. SelectorError when it cannot be read, or names no column."""
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
