"""The rows of a store that an export selects, as a filter over columns. It can be pickled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.inner_batch import WRAPPED
from rmqcli.codec.scan.arrow import inner_rows
from rmqcli.codec.scan.arrow_arrays import is_in, select
from rmqcli.export.output.manifest import Manifest
from rmqcli.store.read.log_records import NO_HOST

_PREPARED = MessageSysFlag.TRANSACTION_PREPARED
_ROLLED_BACK = MessageSysFlag.TRANSACTION_ROLLBACK
"""Both bits of the state, one of which is the bit of prepared messages."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter that accepts everything when empty.

    Ranges of queue offsets and store times (ms) are half-open.

    `begin_commit_log` is a commit-log offset. With `check_crc`, a wrong CRC is damage. Rolled-back records
    are never accepted, because they are not messages, and because `rmq inspect salvage` fills lost ranges
    with them; nor are the messages with which it replaces lost ones. With a topic, queue, tag or queue
    offset, or with `only_queued`, prepared messages are not accepted either, because no queue contains them.
    All rows get `broker_name`.

    The records of a range of times are found by samples `sample_bytes` apart, in a log whose clock was set
    back by at most `set_back_ms`.
    """

    topics: frozenset[str] = frozenset()
    queue_id: int | None = None
    tags: frozenset[str] = frozenset()
    begin: int | None = None
    end: int | None = None
    begin_time: int | None = None
    end_time: int | None = None
    begin_commit_log: int = 0
    check_crc: bool = True
    only_queued: bool = False
    set_back_ms: int = 10 * 60 * 1000
    sample_bytes: int = 1 << 20
    broker_name: str | None = None
    done: Mapping[tuple[str, int], int] = field(default_factory=dict, hash=False)
    """Queue offsets by topic and queue id; of these queues, only records from there on are wanted."""

    @property
    def has_end(self) -> bool:
        """True if records that are left out may precede accepted ones."""
        return self.end is not None or self.end_time is not None

    def after(self, previous: Manifest | None, store: str) -> RowFilter:
        """Return the filter without the records of a store that an earlier export contains.

        With `only_queued`, other exports, for example of the running cluster, may have continued in the
        queues.
        """
        if previous is None:
            return self
        reached = previous.commit_log_offset(store)
        rest = replace(self, begin_commit_log=max(self.begin_commit_log, reached or 0))
        if reached is not None and not self.only_queued:
            return rest
        own = (span for span in previous.queues if span.broker_name == self.broker_name)
        return replace(rest, done={(span.topic, span.queue_id): span.end for span in own})

    @property
    def is_empty(self) -> bool:
        return self.end is not None and self.end <= (self.begin or 0)

    @property
    def asks_queues(self) -> bool:
        """True if consume queues can answer part of the filter."""
        return bool(self.topics or self.tags or self.begin) or (self.queue_id, self.end) != (None, None)

    def takes_queue(self, topic: str | None, queue_id: int | None) -> bool:
        return (not self.topics or topic in self.topics) and self.queue_id in (None, queue_id)

    def done_of(self, topic: str, queue_id: int) -> int:
        """Return the queue offset before which a queue was exported."""
        return self.done.get((topic, queue_id), 0)

    def messages(self, batch: Any) -> Any:
        """Return the accepted messages of a batch of records, one row for each message of an inner batch.

        Queue offset and tags of the record of an inner batch are those of its first message, or missing.
        """
        if not np.any(batch["sys_flag"].to_numpy() & WRAPPED == WRAPPED):
            return self.apply(batch)
        # These fields apply to messages, not to the record of an inner batch.
        records = replace(self, tags=frozenset(), begin=None, end=None, done={})
        return self.apply(inner_rows(records.apply(batch)))

    def apply(self, batch: Any) -> Any:
        """Return the accepted rows of a batch."""
        wanted = reduce(pc.and_, self._conditions(batch))
        if pc.all(wanted, min_count=0).as_py():
            return batch
        return select(batch, np.flatnonzero(pc.fill_null(wanted, False).to_numpy(zero_copy_only=False)))

    def _conditions(self, batch: Any) -> list[Any]:
        def moment(milliseconds: int) -> Any:
            return pa.scalar(milliseconds * 1000, pa.timestamp("us", tz="UTC"))

        table: tuple[tuple[Any, str, Any, Callable[[Any], Any]], ...] = (
            (self.topics or None, "topic", is_in, frozenset),
            (self.queue_id, "queue_id", pc.equal, int),
            (self.tags or None, "tags", is_in, frozenset),
            (self.begin, "queue_offset", pc.greater_equal, int),
            (self.end, "queue_offset", pc.less, int),
            (self.begin_time, "store_timestamp", pc.greater_equal, moment),
            (self.end_time, "store_timestamp", pc.less, moment),
            (self.begin_commit_log or None, "commit_log_offset", pc.greater_equal, int),
        )
        found = [
            compare(batch[name], value(bound)) for bound, name, compare, value in table if bound is not None
        ]
        found += [self._in_a_queue(batch), _is_stored(batch)]
        return [*found, self._not_done(batch)] if self.done else found

    def _in_a_queue(self, batch: Any) -> Any:
        never = _PREPARED if self.asks_queues or self.only_queued else _ROLLED_BACK
        return pa.array(batch["sys_flag"].to_numpy() & never != never)

    def _not_done(self, batch: Any) -> Any:
        topics, numbers = (pc.cast(batch[name], pa.string()) for name in ("topic", "queue_id"))
        queues = pc.binary_join_element_wise(topics, numbers, "\0")
        known = pa.array([f"{topic}\0{queue}" for topic, queue in self.done])
        ends = pa.array(list(self.done.values()), pa.int64())
        least = ends.take(pc.index_in(queues, value_set=known))
        return pc.fill_null(pc.greater_equal(batch["queue_offset"], least), True)


def _is_stored(batch: Any) -> Any:
    """Return a mask of the messages that a broker stored, as opposed to those that fill a salvaged store."""
    return pc.invert(pc.and_(*(is_in(batch[name], {NO_HOST}) for name in ("store_host", "born_host"))))
