"""The test of records in place that a filter implies. Every matching record passes; those that pass must
still be decoded and tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rmqcli.codec.core.property_pairs import NAME_VALUE_SEPARATOR
from rmqcli.codec.core.record_tests import (
    HIGHEST,
    LOWEST,
    AllOf,
    AnyOf,
    NumberIn,
    PropertiesContain,
    RecordTest,
    TopicIn,
)
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.records.filter import COLUMNS, RecordFilter
from rmqcli.codec.selector.sql92_tree import (
    MIRRORED,
    And,
    Comparison,
    Constant,
    In,
    Kind,
    Node,
    Operator,
    Or,
    Property,
    number_of,
)
from rmqcli.codec.store.record_layout import PREFIXES

_UNREADABLE = "\ufffd"
Bounds = tuple[int | None, int | None]
"""A half-open range; None means no bound."""


def possible(
    chosen: RecordFilter, offsets: Bounds = (None, None), times: Bounds = (None, None)
) -> RecordTest:
    """Return the test for a filter, a range of commit-log offsets, and one of store times (ms)."""
    found = (
        _within("physical_offset", offsets),
        _within("store_timestamp", times),
        None if chosen.queue_id is None else NumberIn("queue_id", chosen.queue_id, chosen.queue_id),
        _one_of("topic", chosen.topics) if chosen.topics else None,
        _node(chosen.where.tree) if chosen.where is not None else None,
        _one_of("tags", chosen.tags) if chosen.tags else None,
        _containing([chosen.key]) if chosen.key is not None else None,
    )
    return AllOf([test for test in found if test is not None])


def _within(name: str, bounds: Bounds) -> RecordTest | None:
    begin, end = bounds
    if begin is None and end is None:
        return None
    return NumberIn(name, LOWEST if begin is None else begin, HIGHEST if end is None else end - 1)


def _node(node: Node | None) -> RecordTest | None:
    """Return a test that passes every record for which a condition is TRUE; None if there is none."""
    compiler = _NODES.get(type(node))
    return None if compiler is None else compiler(node)


def _and(node: And) -> RecordTest | None:
    tests = [test for test in map(_node, node.operands) if test is not None]
    return AllOf(tests) if tests else None


def _or(node: Or) -> RecordTest | None:
    tests = [test for test in map(_node, node.operands) if test is not None]
    # An operand without a test could make the whole condition TRUE.
    return AnyOf(tests) if len(tests) == len(node.operands) else None


def _in(node: In) -> RecordTest | None:
    return None if node.negated else _one_of(node.name, node.items)


def _comparison(node: Comparison) -> RecordTest | None:
    how, left, right = node.operator, node.left, node.right
    if isinstance(right, Property):
        how, left, right = MIRRORED[how], right, left
    if not isinstance(left, Property):
        return None
    number = number_of(right)
    if number is not None:
        name = _NUMBERS.get(left.name)
        return None if name is None else NumberIn(name, *_range(how, number.value))
    is_text = isinstance(right, Constant) and right.kind is Kind.STRING and how is Operator.EQUAL
    return _one_of(left.name, [right.value]) if is_text else None  # type: ignore[union-attr, list-item]


def _range(how: Operator, value: float) -> tuple[int, int]:
    """Return the range of the integers for which a comparison with a number holds; for a fraction, it may be
    wider.
    """
    if not math.isfinite(value):
        return LOWEST, HIGHEST
    low, high = math.floor(value), math.ceil(value)
    if isinstance(value, float):
        # An integer that is compared with a double is rounded first.
        low, high = low - (abs(low) >> 52), high + (abs(high) >> 52)
    strict = int(isinstance(value, int))
    return {
        Operator.EQUAL: (low, high),
        Operator.LESS: (LOWEST, high - strict),
        Operator.LESS_EQUAL: (LOWEST, high),
        Operator.GREATER: (low + strict, HIGHEST),
        Operator.GREATER_EQUAL: (low, HIGHEST),
    }[how]


def _one_of(name: str, texts: Iterable[str]) -> RecordTest | None:
    if name == "topic":
        topics = _as_stored(texts)
        return TopicIn(topics) if topics else None
    if name in COLUMNS and name != "tags":
        return None
    name = PropertyName.TAGS if name == "tags" else name
    return _containing([f"{name}{NAME_VALUE_SEPARATOR}{text}" for text in texts])


def _containing(texts: Iterable[str]) -> RecordTest | None:
    needles = _as_stored(texts)
    return None if needles is None or not all(needles) else PropertiesContain(needles)


def _as_stored(texts: Iterable[str]) -> list[bytes] | None:
    """Return strings as stored; None if one cannot be stored, or may have been read from bytes that are not
    UTF-8.
    """
    try:
        return None if any(_UNREADABLE in text for text in texts) else [text.encode() for text in texts]
    except UnicodeEncodeError:
        return None


_NUMBERS: Mapping[str, str] = {
    **{name: name for name in PREFIXES[0].names if name in COLUMNS and not name.endswith("_host")},
    "commit_log_offset": "physical_offset",
    "store_size": "total_size",
}
"""Numbers of a record, from their names in conditions to those in its prefix."""
_NODES: Mapping[type[Any], Callable[[Any], RecordTest | None]] = {
    And: _and,
    Or: _or,
    In: _in,
    Comparison: _comparison,
}
