"""Which rows of a store an export takes, as a filter over columns. Plain data: it travels to Spark's executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

__all__ = ["RowFilter"]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Everything when empty. Queue offsets are half-open, times are store times in ms, half-open.

    `begin_commit_log` is a commit-log offset. `check_crc`: a body whose CRC is wrong is damage.
    """

    topic: str | None = None
    begin: int | None = None
    end: int | None = None
    begin_time: int | None = None
    end_time: int | None = None
    begin_commit_log: int = 0
    check_crc: bool = True

    @property
    def is_empty(self) -> bool:
        """No row can be inside, so nothing need be read."""
        return self.end is not None and self.end <= (self.begin or 0)

    def apply(self, batch: Any) -> Any:
        """The rows of a record batch that are taken."""
        import pyarrow.compute as pc

        conditions = self._conditions(batch)
        return batch.filter(reduce(pc.and_, conditions)) if conditions else batch

    def _conditions(self, batch: Any) -> list[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        def moment(milliseconds: int) -> Any:
            return pa.scalar(milliseconds * 1000, pa.timestamp("us", tz="UTC"))

        table: tuple[tuple[Any, str, Any, Callable[[Any], Any]], ...] = (
            (self.topic, "topic", pc.equal, str),
            (self.begin, "queue_offset", pc.greater_equal, int),
            (self.end, "queue_offset", pc.less, int),
            (self.begin_time, "store_timestamp", pc.greater_equal, moment),
            (self.end_time, "store_timestamp", pc.less, moment),
            (self.begin_commit_log or None, "commit_log_offset", pc.greater_equal, int),
        )
        return [
            compare(batch[name], value(bound)) for bound, name, compare, value in table if bound is not None
        ]
