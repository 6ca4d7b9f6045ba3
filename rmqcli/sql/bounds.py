"""Bounds of the rows that a filter can accept, for scans that find rows by topic, queue, offset and time.

DuckDB gives a scan its filter as an Arrow expression, whose parts Python cannot see. But Arrow tells whether
an expression can be true where something is known of the columns: it leaves out files of a partitioned data
set in this way. Bounds are found by asking it, so they hold for every expression, and for one that it does
not understand they are open. They never exclude an accepted row; what they include has to be filtered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from codec.scan.schema import schema

_ORDERED = ("queue_id", "queue_offset", "commit_log_offset", "store_timestamp")
_TESTED_QUEUES = 256
"""Numbers of queues that are looked at one by one: a list of numbers is no range."""
_FORMAT = ds.IpcFileFormat()
_FILES = LocalFileSystem()


class Interval(NamedTuple):
    """Numbers from `low` to `high`, both included; None is open."""

    low: int | None = None
    high: int | None = None

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    @property
    def only(self) -> int | None:
        """The number, if there is one only."""
        return self.low if self.low == self.high else None


class Bounds(NamedTuple):
    """Bounds by column; times in µs. `topics` are those of the known ones that a row can have, `not_queues` IDs
    within the bounds that none has.
    """

    topics: frozenset[str]
    queue_id: Interval = Interval()
    queue_offset: Interval = Interval()
    commit_log_offset: Interval = Interval()
    store_timestamp: Interval = Interval()
    not_queues: frozenset[int] = frozenset()

    def takes_queue(self, queue_id: int) -> bool:
        """Return False if no row of a queue can be accepted."""
        return queue_id in self.queue_id and queue_id not in self.not_queues


def bounds_of(filter: Any | None, topics: Collection[str]) -> Bounds | None:
    """Return the bounds of the rows of these topics; None if no row of them can be accepted."""
    if filter is None:
        return Bounds(frozenset(topics))
    possible = _possible_topics(filter, topics)
    found = {name: _interval(filter, name) for name in _ORDERED}
    if not possible or None in found.values():
        return None
    known = {name: one for name, one in found.items() if one is not None}
    return Bounds(frozenset(possible), **known, not_queues=_impossible_queues(filter, known["queue_id"]))


def _possible_topics(filter: Any, topics: Collection[str]) -> set[str]:
    names = list(topics)
    known = _possible(filter, [ds.field("topic") == pa.scalar(name, pa.string()) for name in names])
    return {names[number] for number in known}


def _impossible_queues(filter: Any, bounds: Interval) -> frozenset[int]:
    if "queue_id" not in str(filter):
        return frozenset()
    numbers = [number for number in range(_TESTED_QUEUES) if number in bounds]
    known = _possible(filter, [ds.field("queue_id") == pa.scalar(number, pa.int32()) for number in numbers])
    return frozenset(numbers).difference(numbers[place] for place in known)


def _possible(filter: Any, guarantees: list[Any]) -> list[int]:
    """Return the numbers of the guarantees under which the filter can be true."""
    fragments = [
        _FORMAT.make_fragment(str(number), _FILES, partition_expression=one)
        for number, one in enumerate(guarantees)
    ]
    files = ds.FileSystemDataset(fragments, schema(), _FORMAT, _FILES)
    return [int(fragment.path) for fragment in files.get_fragments(filter)]


def _interval(filter: Any, name: str) -> Interval | None:
    """Return None if the filter is never true."""
    column, kind = ds.field(name), schema().field(name).type
    width = 8 * kind.byte_width - 1
    least, most = -(1 << width), (1 << width) - 1

    def number(value: int) -> Any:
        plain = pa.scalar(value, pa.int32() if width == 31 else pa.int64())
        return plain.cast(kind)

    def up_to(value: int) -> bool:
        return bool(_possible(filter, [column <= number(value)]))

    def down_to(value: int) -> bool:
        return bool(_possible(filter, [column >= number(-value)]))

    if not up_to(most):
        return None
    low = _first(up_to, least, most)
    high = _first(down_to, -most, -least)
    if low is not None and high is not None and low > -high:
        return None
    return Interval(low, None if high is None else -high)


def _first(holds: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the least number for which a statement holds, which then holds for all above; None if it holds
    for all.
    """
    if holds(least):
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most
