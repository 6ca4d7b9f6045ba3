"""Statistics of topics and consume queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import (
    OnDamage,
)
from rmqcli.store.read.consume_queue import QueueEntry
from rmqcli.store.stats.distribution import Distribution


@dataclass(slots=True)
class TopicStatistics:
    """Statistics of one topic of a commit log: sizes of whole records in bytes, store times in ms."""

    topic: str
    messages: int = 0
    size: int = 0
    body_size: int = 0
    queues: set[int] = field(default_factory=set)
    first_store_timestamp: int = 0
    last_store_timestamp: int = 0

    def add(self, message: MessageExt) -> None:
        time = message.store_timestamp
        self.add_many(1, message.store_size, len(message.body), (message.queue_id,), (time, time))

    def add_many(
        self, messages: int, size: int, body_size: int, queues: Iterable[int], times: tuple[int, int]
    ) -> None:
        """Add several messages; `times` are the first and the last store time."""
        self.messages += messages
        self.size += size
        self.body_size += body_size
        self.queues.update(queues)
        if not self.first_store_timestamp or times[0] < self.first_store_timestamp:
            self.first_store_timestamp = times[0]
        self.last_store_timestamp = max(self.last_store_timestamp, times[1])


class LogStatistics:
    def __init__(self) -> None:
        self._topics: dict[str, TopicStatistics] = {}

    def topic(self, name: str) -> TopicStatistics:
        if name not in self._topics:
            self._topics[name] = TopicStatistics(name)
        return self._topics[name]

    def add(self, message: MessageExt) -> None:
        self.topic(message.topic).add(message)

    @property
    def topics(self) -> list[TopicStatistics]:
        return [self._topics[name] for name in sorted(self._topics)]


@dataclass(slots=True)
class QueueStatistics:
    """Statistics of a consume queue; `size` is the total size in bytes of the records it points to."""

    entries: int = 0
    first: int = 0
    last: int = -1
    size: int = 0
    tags_codes: Counter[int] = field(default_factory=Counter)

    def add(self, entry: QueueEntry) -> None:
        if not self.entries:
            self.first = entry.queue_offset
        self.entries += 1
        self.last = entry.queue_offset
        self.size += entry.size
        self.tags_codes[entry.tags_code] += 1


class LogCounts:
    def __init__(self) -> None:
        self.statistics = LogStatistics()
        self.distribution = Distribution()

    def add(self, message: MessageExt) -> None:
        self.statistics.add(message)
        self.distribution.add(message)


class Counting(NamedTuple):
    """The parameters and result of a count; `on_damage` receives bodies whose size is counted as stored."""

    wanted: OffsetRange
    chosen: RecordFilter
    counts: LogCounts
    on_damage: OnDamage
