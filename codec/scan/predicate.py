"""A record filter applied to the columns and properties texts of many records at once. Needs PyArrow.

It never drops a matching record; records that pass must still be decoded and tested one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from rmqcli.codec.core.property_pairs import NAME_VALUE_SEPARATOR
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.records.filter import COLUMNS, RecordFilter
from rmqcli.codec.scan.arrow_arrays import pieces
from rmqcli.codec.scan.columns import Array, bytes_at, fixed_columns
from rmqcli.codec.scan.entries import LogViews, by_file, entry_columns
from rmqcli.codec.scan.walk import (
    BLOCK_RECORDS,
    Bounds,
    RecordBlock,
    blocks_backwards,
    in_range,
    sound_blocks,
)
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


Test: TypeAlias = Callable[[RecordBlock, Array], Array]
"""A test of records of a block, given by their indexes; it returns a mask of those that may match."""


def candidate_records(
    data: memoryview,
    base: int | None,
    offsets: Bounds,
    times: Bounds,
    chosen: RecordFilter,
    max_rows: int = BLOCK_RECORDS,
) -> Iterator[tuple[int, list[int]]]:
    """Yield, for each block of a file, the byte after it and the positions of the records that may match.
    Blocks end at the first unusual record, where the scalar readers take over.
    """
    tests = list(tests_of(chosen))
    for block in sound_blocks(data, base, offsets[1], max_rows):
        yield block.end, _passing(block, np.flatnonzero(in_range(block.rows, offsets, times)), tests)


def last_candidates(
    data: memoryview, base: int | None, positions: Array, chosen: RecordFilter, max_rows: int = BLOCK_RECORDS
) -> Iterator[list[int]]:
    """Yield the positions, among these ascending ones, where records may match: block by block from the last,
    each block in order. Raises CorruptionError at an unusual record.
    """
    tests = list(tests_of(chosen))
    for block in blocks_backwards(data, base, positions, max_rows):
        yield _passing(block, np.arange(len(block.positions)), tests)


def candidate_entries(raw: memoryview, views: LogViews, chosen: RecordFilter) -> list[int]:
    """Return the indexes of the queue entries in `raw` whose records may match or cannot be read. Fillers,
    and entries whose records retention removed, are left out.
    """
    tests = list(tests_of(chosen))
    entries = entry_columns(raw)
    possible = np.zeros(len(entries.offsets), dtype=bool)
    for mine, data, base in by_file(views, entries.offsets, np.flatnonzero(~entries.fillers)):
        possible[mine] = _may_lead_to(data, entries.offsets[mine] - base, tests)
    found: list[int] = np.flatnonzero(possible).tolist()
    return found


def _may_lead_to(data: memoryview, positions: Array, tests: Iterable[Test]) -> Array:
    passing = np.ones(len(positions), dtype=bool)
    try:
        rows = fixed_columns(data, positions)
    except CorruptionError:
        return passing
    block = RecordBlock(data, rows, positions, len(data))
    # Tests cut adjacent texts, so positions must ascend. Entries of a damaged queue may not; they all pass.
    for test in tests if (np.diff(positions) > 0).all() else ():
        passing &= test(block, np.arange(len(positions)))
    return passing


def _passing(block: RecordBlock, numbers: Array, tests: Iterable[Test]) -> list[int]:
    for test in tests:
        if len(numbers):
            numbers = numbers[test(block, numbers)]
    found: list[int] = block.positions[numbers].tolist()
    return found


def tests_of(chosen: RecordFilter) -> Iterator[Test]:
    """Yield the tests that a matching record must pass, as far as columns can tell."""
    if chosen.queue_id is not None:
        yield _compared("queue_id", Operator.EQUAL, chosen.queue_id)
    found = (
        _one_of("topic", chosen.topics) if chosen.topics else None,
        _node(chosen.where.tree) if chosen.where is not None else None,
        _one_of("tags", chosen.tags) if chosen.tags else None,
        _holding([chosen.key]) if chosen.key is not None else None,
    )
    yield from (test for test in found if test is not None)


def _node(node: Node | None) -> Test | None:
    """Return a test that passes every record for which a condition is TRUE; None if columns cannot tell."""
    compiler = _NODES.get(type(node))
    return None if compiler is None else compiler(node)


def _and(node: And) -> Test | None:
    tests = [test for test in map(_node, node.operands) if test is not None]
    return _joined(tests, np.logical_and) if tests else None


def _or(node: Or) -> Test | None:
    tests = [test for test in map(_node, node.operands) if test is not None]
    # An operand that columns cannot test could make the whole condition TRUE.
    return _joined(tests, np.logical_or) if len(tests) == len(node.operands) else None


def _joined(tests: list[Test], join: Any) -> Test:
    return lambda block, numbers: join.reduce([test(block, numbers) for test in tests])


def _in(node: In) -> Test | None:
    return None if node.negated else _one_of(node.name, node.items)


def _comparison(node: Comparison) -> Test | None:
    how, left, right = node.operator, node.left, node.right
    if isinstance(right, Property):
        how, left, right = MIRRORED[how], right, left
    if not isinstance(left, Property):
        return None
    number = number_of(right)
    if number is not None:
        column = _NUMBERS.get(left.name)
        return None if column is None else _compared(column, how, number.value)
    is_text = isinstance(right, Constant) and right.kind is Kind.STRING and how is Operator.EQUAL
    return _one_of(left.name, [right.value]) if is_text else None  # type: ignore[union-attr, list-item]


def _compared(column: str, how: Operator, value: float) -> Test:
    compare = _COMPARE[how]
    return lambda block, numbers: compare(block.rows[column][numbers].astype(np.int64), value)


def _one_of(name: str, texts: Iterable[str]) -> Test | None:
    if name == "topic":
        return _topic(texts)
    if name in COLUMNS and name != "tags":
        return None
    name = PropertyName.TAGS if name == "tags" else name
    return _holding([f"{name}{NAME_VALUE_SEPARATOR}{text}" for text in texts])


def _topic(texts: Iterable[str]) -> Test | None:
    topics = _as_stored(texts)
    if not topics:
        return None

    def test(block: RecordBlock, numbers: Array) -> Array:
        starts, ends = (block.rows[name][numbers] for name in ("topic_start", "topic_end"))
        found: Array = np.logical_or.reduce([_equal_to(block.data, starts, ends, topic) for topic in topics])
        return found

    return test


def _equal_to(data: memoryview, starts: Array, ends: Array, text: bytes) -> Array:
    """Return a mask of the texts data[start:end] that are equal to `text`."""
    equal: Array = ends - starts == len(text)
    here = np.flatnonzero(equal)
    if len(here):
        found = bytes_at(data, starts[here], len(text))
        equal[here] = (found == np.frombuffer(text, dtype=np.uint8)).all(axis=1)
    return equal


def _holding(texts: Iterable[str]) -> Test | None:
    needles = _as_stored(texts)
    if needles is None or not all(needles):
        return None

    def test(block: RecordBlock, numbers: Array) -> Array:
        starts, ends = (block.rows[name][numbers] for name in ("properties_start", "properties_end"))
        _, places, joined = pieces(pa.py_buffer(block.data), starts, ends).buffers()
        text = b"" if joined is None else joined.to_pybytes()
        found = np.array([at for needle in needles for at in _occurrences(text, needle)], dtype=np.int64)
        mask = np.zeros(len(numbers), dtype=bool)
        # A match across two adjacent texts does no harm: one more record passes.
        mask[np.searchsorted(np.frombuffer(places, np.int32), found, side="right") - 1] = True
        return mask

    return test


def _occurrences(text: bytes, needle: bytes) -> Iterator[int]:
    at = text.find(needle)
    while at >= 0:
        yield at
        at = text.find(needle, at + 1)


def _as_stored(texts: Iterable[str]) -> list[bytes] | None:
    """Return texts as they are stored; None if one cannot be stored, or may have been read from bytes that
    are not UTF-8.
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
"""Numeric columns, from their names in conditions to those in records."""
_COMPARE: Mapping[Operator, Callable[[Array, float], Array]] = {
    Operator.EQUAL: np.equal,
    Operator.LESS: np.less,
    Operator.LESS_EQUAL: np.less_equal,
    Operator.GREATER: np.greater,
    Operator.GREATER_EQUAL: np.greater_equal,
}
_NODES: Mapping[type[Any], Callable[[Any], Test | None]] = {
    And: _and,
    Or: _or,
    In: _in,
    Comparison: _comparison,
}
