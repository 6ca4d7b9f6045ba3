"""The counts of `rmq pull --stats`, which import the statistics of store files."""

from __future__ import annotations

from typing import Any

from rmqcli.codec.message import MessageExt
from rmqcli.render.distribution import TOP_KEYS, show_distribution
from rmqcli.render.output import OutputSettings
from rmqcli.render.table import MESSAGES, Column, show_rows
from rmqcli.render.text import local_seconds
from rmqcli.store.stats.counts import TopicStatistics
from rmqcli.store.stats.distribution import Distribution

MAX_TAGS = 10_000
OTHERS = "(others)"
"""The name under which messages are counted whose tag comes after MAX_TAGS others."""

_COLUMNS = (
    Column("BY", "by"),
    Column("VALUE", "value", whole=True),
    MESSAGES,
    Column("BODY BYTES", "bodyBytes", number=True),
    Column("FIRST STORED", "firstStoreTimestamp", local_seconds),
    Column("LAST STORED", "lastStoreTimestamp", local_seconds),
)


class MessageCounts:
    """Counts messages by queue, tag and key as they arrive."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], TopicStatistics] = {}
        self._tags: dict[str, TopicStatistics] = {}
        self._distribution = Distribution()

    def add(self, message: MessageExt) -> None:
        place = (message.broker_name, message.queue_id)
        if place not in self._queues:
            self._queues[place] = TopicStatistics(f"{place[0]}/{place[1]}")
        self._queues[place].add(message)
        tag = message.tags or ""
        if tag not in self._tags:
            tag = tag if len(self._tags) < MAX_TAGS else OTHERS
            self._tags.setdefault(tag, TopicStatistics(tag))
        self._tags[tag].add(message)
        self._distribution.add(message)

    def rows(self) -> list[list[Any]]:
        """Return the rows: queues in order, tags and keys by descending frequency."""
        tags = sorted(self._tags.values(), key=lambda one: (-one.messages, one.topic))
        return [
            *(_row("queue", self._queues[place]) for place in sorted(self._queues)),
            *(_row("tag", one) for one in tags),
            *(
                ["key", key, count, None, None, None]
                for key, count in self._distribution.frequent_keys(TOP_KEYS)
            ),
        ]

    def show(self, settings: OutputSettings) -> None:
        """Print the rows; on a terminal also sizes and the rate."""
        rows = self.rows()
        show_rows(settings, _COLUMNS, rows, empty="no messages")
        if rows and settings.terminal and not settings.json:
            show_distribution(self._distribution)


def _row(by: str, one: TopicStatistics) -> list[Any]:
    return [by, one.topic, one.messages, one.body_size, one.first_store_timestamp, one.last_store_timestamp]
