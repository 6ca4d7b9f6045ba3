"""The queue offsets that rows hold: stored in the footer of every file, summed up in the manifest.

Records in no consume queue (half and rolled-back messages of old brokers) do not count: their queue offset
means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from codec.codes import MessageSysFlag

QueueKey: TypeAlias = tuple[str, str | None, int]
"""Topic, broker (None: unknown), queue id."""


class QueueSpan(msgspec.Struct, frozen=True, rename="camel"):
    """Queue offsets [begin, end), with the number of rows in them."""

    topic: str
    broker_name: str | None
    queue_id: int
    begin: int
    end: int
    rows: int

    @property
    def key(self) -> QueueKey:
        return self.topic, self.broker_name, self.queue_id


class LastRow(msgspec.Struct, frozen=True, rename="camel"):
    """The last exported record of a queue, which tells whether the topic is still the same one."""

    topic: str
    broker_name: str | None
    queue_id: int
    queue_offset: int
    commit_log_offset: int

    @property
    def key(self) -> QueueKey:
        return self.topic, self.broker_name, self.queue_id


def last_rows(table: Any, spans: Iterable[QueueSpan]) -> Iterator[LastRow]:
    """Yield the last row of each of these spans, which are those of the table."""
    import numpy as np

    in_queues = table["sys_flag"].to_numpy() & MessageSysFlag.TRANSACTION_PREPARED == 0
    offsets, places = table["queue_offset"].to_numpy(), table["commit_log_offset"].to_numpy()
    ends = {span.end - 1: None for span in spans}
    rows = np.flatnonzero(np.isin(offsets, list(ends)) & in_queues)
    some = table.select(["topic", "broker_name", "queue_id"]).take(rows)
    found: dict[tuple[QueueKey, int], int] = {}
    for topic, broker, queue, row in zip(
        *(some[name].to_pylist() for name in some.column_names), rows.tolist(), strict=True
    ):
        found[(topic, broker, queue), int(offsets[row])] = int(places[row])
    for span in spans:
        place = found.get((span.key, span.end - 1))
        if place is not None:
            yield LastRow(*span.key, span.end - 1, place)


def latest(rows: Iterable[LastRow]) -> list[LastRow]:
    """Return the last row of each queue, sorted."""
    found: dict[QueueKey, LastRow] = {}
    for row in rows:
        known = found.get(row.key)
        if known is None or row.queue_offset >= known.queue_offset:
            found[row.key] = row
    return sorted(found.values(), key=lambda row: (row.topic, row.broker_name or "", row.queue_id))


def spans_of(table: Any) -> Iterator[QueueSpan]:
    import numpy as np
    import pyarrow as pa

    in_queues = table["sys_flag"].to_numpy() & MessageSysFlag.TRANSACTION_PREPARED == 0
    if not in_queues.all():
        table = table.select(["topic", "broker_name", "queue_id", "queue_offset"]).filter(pa.array(in_queues))
    if not table.num_rows:
        return
    (topics, topic_codes), (brokers, broker_codes) = map(_coded, (table["topic"], table["broker_name"]))
    # Rows are grouped by one number much faster than by texts.
    queues = table["queue_id"].to_numpy().view(np.uint32).astype(np.int64)
    keys = pa.array(((topic_codes * len(brokers) + broker_codes) << 32) | queues).dictionary_encode()
    for key, *span in zip(keys.dictionary.to_pylist(), *_bounds(keys, table["queue_offset"]), strict=True):
        names, queue = divmod(key, 1 << 32)
        topic, broker = divmod(names, len(brokers))
        queue_id = queue - ((queue >> 31) << 32)
        yield QueueSpan(topics[topic], brokers[broker], queue_id, *span)


def _bounds(keys: Any, column: Any) -> tuple[list[int], list[int], list[int]]:
    """Return, for each key, the least value, the one after the greatest, and the count."""
    import numpy as np

    codes, values = keys.indices.to_numpy(), column.to_numpy()
    least = np.full(len(keys.dictionary), np.iinfo(np.int64).max)
    most = np.full(len(keys.dictionary), np.iinfo(np.int64).min)
    np.minimum.at(least, codes, values)
    np.maximum.at(most, codes, values)
    return least.tolist(), (most + 1).tolist(), np.bincount(codes).tolist()


def _coded(column: Any) -> tuple[list[Any], Any]:
    """Return the values of a column, None last, and the index of each row's value in int64."""
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = coded.unify_dictionaries().combine_chunks()
    values = whole.dictionary.to_pylist()
    return [*values, None], whole.indices.cast(pa.int64()).fill_null(len(values)).to_numpy()


def merged(spans: Iterable[QueueSpan]) -> list[QueueSpan]:
    """Join spans into one for each queue, sorted."""
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

    def __init__(self, *, of_store: bool) -> None:
        self._of_store = of_store
        self._spans: list[QueueSpan] = []
        self._last: list[LastRow] = []
        self._commit_log_end = 0
        self._undecoded = 0

    def add(self, table: Any, undecoded: int = 0) -> None:
        """Add rows, `undecoded` of which have a body that did not decode."""
        self._undecoded += undecoded
        spans = list(spans_of(table))
        self._spans = merged([*self._spans, *spans])
        self._last = latest([*self._last, *last_rows(table, spans)])
        self._commit_log_end = max(self._commit_log_end, _commit_log_end(table))

    def metadata(self) -> dict[str, str]:
        """Return metadata of a file: `rmq.offsets`, `rmq.last`, for a store the end `rmq.commit_log_end`, and
        `rmq.undecoded` if there are any.
        """
        found = {
            "rmq.offsets": msgspec.json.encode(self._spans).decode(),
            "rmq.last": msgspec.json.encode(self._last).decode(),
        }
        if self._undecoded:
            found["rmq.undecoded"] = str(self._undecoded)
        if self._of_store:
            found["rmq.commit_log_end"] = str(self._commit_log_end)
        return found


def _commit_log_end(table: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.max(pc.add(table["commit_log_offset"], pc.cast(table["store_size"], "int64"))).as_py())
