"""Bounds of the rows that a filter accepts: as narrow as Arrow can tell, and never too narrow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqcli.codec.scan.arrow import schema
from rmqcli.sql.stores import Bounds, Interval, bounds_of
from tests.seeds import times

OPEN = Interval()
TOPICS = ("orders", "parcels")
OFFSET, QUEUE, TOPIC, TIME = map(ds.field, ("queue_offset", "queue_id", "topic", "store_timestamp"))
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MOMENT = pa.scalar(NOON)
MICROS = int(NOON.timestamp() * 1_000_000)


def bounds(topics: tuple[str, ...] = TOPICS, **columns: Any) -> Bounds:
    return Bounds(frozenset(topics), **columns)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (None, bounds()),
        (OFFSET >= 5, bounds(queue_offset=Interval(5, None))),
        ((OFFSET > 5) & (OFFSET < 9), bounds(queue_offset=Interval(6, 8))),
        (OFFSET == 7, bounds(queue_offset=Interval(7, 7))),
        ((OFFSET < 3) | (OFFSET > 9), bounds()),
        ((OFFSET < 3) & (OFFSET > 9), None),
        (OFFSET < 0, bounds(queue_offset=Interval(None, -1))),
        (QUEUE == 3, bounds(queue_id=Interval(3, 3))),
        ((QUEUE >= 1) & (QUEUE <= 2) & (TOPIC == "orders"), bounds(("orders",), queue_id=Interval(1, 2))),
        (TOPIC == "none", None),
        (TOPIC.isin(["parcels", "none"]), bounds(("parcels",))),
        (TOPIC > "orders", bounds(("parcels",))),
        (TIME >= MOMENT, bounds(store_timestamp=Interval(MICROS, None))),
        (
            (TIME < MOMENT) & (ds.field("tags") == "a"),
            bounds(store_timestamp=Interval(None, MICROS - 1)),
        ),
        (pc.add(OFFSET, 1) > 5, bounds()),
        (QUEUE.isin([1, 3]), bounds(queue_id=Interval(1, 3), not_queues=frozenset([2]))),
        ((QUEUE == 1) | (QUEUE == 3), bounds(queue_id=Interval(1, 3), not_queues=frozenset([2]))),
        (QUEUE != 0, bounds(not_queues=frozenset([0]))),
        (~(OFFSET < 5), bounds(queue_offset=Interval(5, None))),
        (ds.field("tags") == "a", bounds()),
        (ds.scalar(False), None),
    ],
)
def test_bounds(filter: Any, expected: Bounds | None) -> None:
    assert bounds_of(filter, TOPICS) == expected


def test_an_interval() -> None:
    assert [number in Interval(1, 3) for number in (0, 1, 3, 4)] == [False, True, True, False]
    assert 7 in OPEN and -7 in OPEN
    assert (Interval(2, 2).only, Interval(2, 3).only, OPEN.only) == (2, None, None)


ROWS = [
    {"topic": topic, "queue_id": queue, "queue_offset": offset, "store_timestamp": offset * 1000 + queue}
    for topic in TOPICS
    for queue in range(3)
    for offset in range(6)
]
TABLE = pa.Table.from_pylist(ROWS, schema=pa.schema([schema().field(name) for name in ROWS[0]]))


def comparisons() -> st.SearchStrategy[Any]:
    numbers = st.one_of(
        st.tuples(st.just(QUEUE), st.integers(-1, 4).map(lambda number: pa.scalar(number, pa.int32()))),
        st.tuples(st.just(OFFSET), st.integers(-1, 7).map(lambda number: pa.scalar(number, pa.int64()))),
        st.tuples(st.just(TIME), st.integers(-1, 7000).map(_moment)),
        st.tuples(st.just(TOPIC), st.sampled_from(["orders", "parcels", "none"]).map(pa.scalar)),
    )
    signs = st.sampled_from(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"])
    return st.builds(lambda pair, sign: getattr(pair[0], sign)(pair[1]), numbers, signs)


def _moment(micros: int) -> Any:
    return pa.scalar(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        inner.map(pc.invert),
    )


@settings(max_examples=times(15))
@given(st.recursive(comparisons(), combined, max_leaves=5))
def test_no_accepted_row_is_left_out(filter: Any) -> None:
    found = bounds_of(filter, TOPICS)
    accepted = TABLE.filter(filter)
    assert accepted.num_rows == 0 or found is not None
    for row in accepted.to_pylist():
        assert found is not None
        assert row["topic"] in found.topics
        assert found.takes_queue(row["queue_id"])
        assert row["queue_offset"] in found.queue_offset
        assert int(row["store_timestamp"].timestamp() * 1_000_000) in found.store_timestamp
