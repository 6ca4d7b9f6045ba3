"""Filters pushed down by Spark, if they concern topic, queue_id, queue_offset or store_timestamp.

They decide which queues and offsets are read, and which rows of each batch are kept; Spark applies the
others. These columns are never null. Times are microseconds since 1970 UTC, as Spark compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Values from `low` to `high`, both included; None is unbounded. With `among`, only those values."""

    low: int | None = None
    high: int | None = None
    among: frozenset[Any] | None = None

    def __contains__(self, value: Any) -> bool:
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.among is None or value in self.among)
        )

    @property
    def least(self) -> int | None:
        """The least allowed number, at which a read can begin."""
        return max((value for value in (self.low, *self._ends(min)) if value is not None), default=None)

    @property
    def most(self) -> int | None:
        """The greatest allowed number."""
        return min((value for value in (self.high, *self._ends(max)) if value is not None), default=None)

    def _ends(self, choose: Callable[..., int]) -> tuple[int, ...]:
        return (choose(self.among),) if self.among else ()

    def at_least(self, low: int) -> Allowed:
        return replace(self, low=low if self.low is None else max(low, self.low))

    def at_most(self, high: int) -> Allowed:
        return replace(self, high=high if self.high is None else min(high, self.high))

    def one_of(self, values: Iterable[Any]) -> Allowed:
        found = frozenset(values)
        return replace(self, among=found if self.among is None else found & self.among)


def _same(value: type) -> Callable[[Any], Any]:
    return lambda given: given if type(given) is value else None


def _micros(given: Any) -> int | None:
    if not isinstance(given, datetime) or given.tzinfo is None:
        return None
    return (given - _EPOCH) // timedelta(microseconds=1)


COLUMNS: Mapping[str, Callable[[Any], Any]] = {
    "topic": _same(str),
    "queue_id": _same(int),
    "queue_offset": _same(int),
    "store_timestamp": _micros,
}
"""Columns, with functions that make the value of a filter comparable, or return None if it is not."""

_COMPARED: Mapping[str, Callable[[Allowed, Any], Allowed]] = {
    "EqualTo": lambda allowed, value: allowed.one_of([value]),
    "EqualNullSafe": lambda allowed, value: allowed.one_of([value]),
    "GreaterThan": lambda allowed, value: allowed.at_least(value + 1),
    "GreaterThanOrEqual": lambda allowed, value: allowed.at_least(value),
    "LessThan": lambda allowed, value: allowed.at_most(value - 1),
    "LessThanOrEqual": lambda allowed, value: allowed.at_most(value),
}


@dataclass(frozen=True, slots=True)
class Constraints:
    """The allowed values of each filtered column. Can be pickled."""

    columns: Mapping[str, Allowed] = field(default_factory=dict)

    def of(self, column: str) -> Allowed:
        return self.columns.get(column, Allowed())

    def apply(self, batch: Any) -> Any:
        masks = [mask for name, allowed in self.columns.items() for mask in _masks(batch[name], allowed)]
        return batch.filter(reduce(pc.and_, masks)) if masks else batch


def _masks(column: Any, allowed: Allowed) -> Iterator[Any]:
    def scalars(values: Iterable[Any]) -> Any:
        kind = column.type
        return pa.array(list(values), pa.int64() if pa.types.is_timestamp(kind) else None).cast(kind)

    if allowed.low is not None:
        yield pc.greater_equal(column, scalars([allowed.low])[0])
    if allowed.high is not None:
        yield pc.less_equal(column, scalars([allowed.high])[0])
    if allowed.among is not None:
        yield pc.is_in(column, value_set=scalars(sorted(allowed.among)) if allowed.among else column[:0])


def constrained(constraints: Constraints, filter: Any) -> Constraints | None:
    """Add a filter (a pyspark.sql.datasource.Filter). Return None if it cannot be applied here."""
    kind, name = type(filter).__name__, ".".join(getattr(filter, "attribute", ()))
    if name not in COLUMNS:
        return None
    if kind == "IsNotNull":
        return constraints
    allowed = _narrowed(constraints.of(name), kind, COLUMNS[name], filter)
    return None if allowed is None else Constraints({**constraints.columns, name: allowed})


def _narrowed(allowed: Allowed, kind: str, comparable: Callable[[Any], Any], filter: Any) -> Allowed | None:
    if kind == "In":
        values = [comparable(value) for value in filter.value]
        return None if None in values else allowed.one_of(values)
    value = comparable(getattr(filter, "value", None))
    if value is None or kind not in _COMPARED or (isinstance(value, str) and not kind.startswith("Equal")):
        return None
    return _COMPARED[kind](allowed, value)
