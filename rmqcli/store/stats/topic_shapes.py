"""Profiles of topics: bytes, rate by store time, body sizes, number of keys. Bodies count as they are stored,
possibly compressed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rmqcli.codec.core.tally import Tally
from rmqcli.store.stats.counts import TopicStatistics
from rmqcli.store.stats.distribution import Distinct, Rate, hash_of


@dataclass(slots=True)
class TopicShape:
    """The profile of a topic.

    `bodies` counts messages by the bit length of the body size, `keyed` those with keys.
    """

    statistics: TopicStatistics
    bodies: Counter[int] = field(default_factory=Counter)
    largest_body: int = 0
    keyed: int = 0
    keys: Distinct = field(default_factory=Distinct)
    rate: Rate = field(default_factory=Rate)


class LogShape:
    """All topics of a log.

    `records` counts records by the bit length of their total size; `skipped` counts damaged places.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicShape] = {}
        self.records: Counter[int] = Counter()
        self.rate = Rate()
        self.skipped = 0

    def topic(self, name: str) -> TopicShape:
        if name not in self.topics:
            self.topics[name] = TopicShape(TopicStatistics(name))
        return self.topics[name]

    def add_times(self, name: str, counts: Iterable[tuple[int, int]]) -> None:
        """Add counts by store time (ms) to a topic, using the intervals of the rate of all topics."""
        rate = self.topic(name).rate
        rate.widen(self.rate.step)
        for time, count in counts:
            rate.add(time, count)

    def add_tally(self, tally: Tally) -> None:
        """Add the counts of some records."""
        for encoded, one in tally.topics.items():
            name = str(encoded, "utf-8", "replace")
            shape = self.topic(name)
            shape.statistics.add_many(
                one.messages, one.size, one.body_size, one.queues, (one.first, one.last)
            )
            shape.bodies.update(dict(enumerate(one.bodies)))
            shape.largest_body = max(shape.largest_body, one.largest_body)
            shape.keyed += one.keyed
            shape.keys.add(map(hash_of, one.keys))
            self.records.update(dict(enumerate(one.sizes)))
            for second, count in one.seconds.items():
                self.rate.add(second * 1000, count)
            self.add_times(name, ((second * 1000, count) for second, count in one.seconds.items()))

    @property
    def messages(self) -> int:
        return sum(shape.statistics.messages for shape in self.topics.values())

    @property
    def size(self) -> int:
        return sum(shape.statistics.size for shape in self.topics.values())

    def counts_of(self, name: str) -> list[int]:
        """Return the number of messages of a topic in each interval of `rate`."""
        rate = self.topics[name].rate
        rate.widen(self.rate.step)
        return rate.counts_from(self.rate.begin, len(self.rate.counts))
