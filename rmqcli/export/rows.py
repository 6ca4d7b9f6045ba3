"""Which rows of a store an export takes, as a filter over columns. Plain data: it travels to Spark's executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

__all__ = ["RowFilter"]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Everything when empty. Queue offsets are half-open, times are store times in ms, half-open.

    `starts` says for (topic, queue id) the first queue offset that is taken; a queue it does not name is taken whole.
    """

    topics: frozenset[str] = frozenset()
    begin: int | None = None
    end: int | None = None
    begin_time: int | None = None
    end_time: int | None = None
    starts: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def apply(self, batch: Any) -> Any:
        """The rows of a record batch that are taken."""
        conditions = [*self._bounds(batch), *self._starts(batch)]
        if self.topics:
            import pyarrow as pa
            import pyarrow.compute as pc

            conditions.append(pc.is_in(batch["topic"], pa.array(sorted(self.topics))))
        return batch.filter(reduce(self._and, conditions)) if conditions else batch

    @staticmethod
    def _and(left: Any, right: Any) -> Any:
        import pyarrow.compute as pc

        return pc.and_(left, right)

    def _bounds(self, batch: Any) -> list[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        def moment(milliseconds: int) -> Any:
            return pa.scalar(milliseconds * 1000, pa.timestamp("us", tz="UTC"))

        table = (
            (self.begin, "queue_offset", pc.greater_equal, int),
            (self.end, "queue_offset", pc.less, int),
            (self.begin_time, "store_timestamp", pc.greater_equal, moment),
            (self.end_time, "store_timestamp", pc.less, moment),
        )
        return [
            compare(batch[name], value(bound)) for bound, name, compare, value in table if bound is not None
        ]

    def _starts(self, batch: Any) -> list[Any]:
        import pyarrow.compute as pc

        def outside(topic: str, queue_id: int, start: int) -> Any:
            queue = pc.and_(pc.equal(batch["topic"], topic), pc.equal(batch["queue_id"], queue_id))
            return pc.and_(queue, pc.less(batch["queue_offset"], start))

        return [pc.invert(outside(*queue, start)) for queue, start in self.starts.items()]
