"""Which offsets of which queues some rows hold: told in the footer of every file, added up in the manifest.

Records that no consume queue has (half and rolled-back messages of old brokers, whose queue offset means nothing) do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

__all__ = ["QueueKey", "QueueSpan", "SpanTally", "merged", "spans_of"]

QueueKey: TypeAlias = tuple[str, str | None, int]
"""Topic, broker (None: rows of a store folder), queue."""

_PREPARED_BIT = 4
"""Set in the sys flags of prepared and of rolled-back messages, not in those of committed ones."""


class QueueSpan(msgspec.Struct, frozen=True, rename="camel"):
    """Queue offsets [begin, end), of which `rows` are there."""

    topic: str
    broker_name: str | None
    queue_id: int
    begin: int
    end: int
    rows: int

    @property
    def key(self) -> QueueKey:
        return self.topic, self.broker_name, self.queue_id


def spans_of(table: Any) -> Iterator[QueueSpan]:
    """The spans of a table, one a queue."""
    import pyarrow.compute as pc

    names = ["topic", "broker_name", "queue_id"]
    table = table.select([*names, "queue_offset", "sys_flag"])
    table = table.filter(pc.equal(pc.bit_wise_and(table["sys_flag"], _PREPARED_BIT), 0))
    asked = [("queue_offset", "min"), ("queue_offset", "max"), ("queue_offset", "count")]
    found = table.group_by(names, use_threads=False).aggregate(asked).to_pydict()
    columns = [found[name] for name in (*names, *(f"queue_offset_{what}" for _, what in asked))]
    for topic, broker, queue, first, last, rows in zip(*columns, strict=True):
        yield QueueSpan(topic, broker, queue, first, last + 1, rows)


def merged(spans: Iterable[QueueSpan]) -> list[QueueSpan]:
    """One span a queue, sorted."""
    found: dict[QueueKey, QueueSpan] = {}
    for span in spans:
        known = found.get(span.key)
        if known is not None:
            bounds = min(known.begin, span.begin), max(known.end, span.end)
            span = QueueSpan(*span.key, *bounds, known.rows + span.rows)
        found[span.key] = span
    return sorted(found.values(), key=lambda span: (span.topic, span.broker_name or "", span.queue_id))


class SpanTally:
    """Counts the rows of one file."""

    def __init__(self) -> None:
        self._spans: list[QueueSpan] = []
        self._commit_log_end = 0

    def add(self, table: Any) -> None:
        self._spans = merged([*self._spans, *spans_of(table)])
        self._commit_log_end = max(self._commit_log_end, _commit_log_end(table))

    def metadata(self) -> dict[str, str]:
        """Key-value metadata of a file: `rmq.offsets`, and for a store where the commit log goes on, `rmq.commit_log_end`."""
        found = {"rmq.offsets": msgspec.json.encode(self._spans).decode()}
        if not any(span.broker_name for span in self._spans):
            found["rmq.commit_log_end"] = str(self._commit_log_end)
        return found


def _commit_log_end(table: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.max(pc.add(table["commit_log_offset"], pc.cast(table["store_size"], "int64"))).as_py())
