"""Settings and totals of many topics."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from codec.bodies.config import TopicConfig
from rmqcli.client import Admin, ClientError, NoRoute
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import stored
from rmqcli.flows.topic_names import application_topics

Failures = dict[str, ClientError]


class TopicTotal(NamedTuple):
    """The queues and messages of a topic on all brokers; `last` is the store time of its last message, 0:
    none.
    """

    topic: str
    brokers: int
    queues: int
    messages: int
    last: int


async def listed_topics(admin: Admin, *, everything: bool) -> list[str]:
    """Return the topics of applications, or all, sorted."""
    found = await admin.topics.names()
    return found if everything else application_topics(found, await admin.brokers.cluster_info())


async def topic_settings(
    admin: Admin, topics: Collection[str], failures: Failures
) -> list[tuple[str, TopicConfig]]:
    """Return broker and settings of each topic on each broker, by topic and broker."""
    tables = await admin.topics.all_settings(failures=failures)
    wanted = set(topics)
    found = [(name, config) for name, table in tables.items() for config in table.values()]
    return sorted(
        ((name, config) for name, config in found if config.topic_name in wanted),
        key=lambda pair: (pair[1].topic_name, pair[0]),
    )


async def topic_totals(admin: Admin, topics: Sequence[str], failures: Failures) -> list[TopicTotal]:
    """Return totals in the order of `topics`; topics that are deleted meanwhile are left out."""
    found, lost = await gather(topics, lambda topic: _total(admin, topic, failures))
    for error in lost.values():
        if not isinstance(error, NoRoute) and not failures:
            raise error
    return list(found.values())


async def _total(admin: Admin, topic: str, failures: Failures) -> TopicTotal:
    stats = await admin.topics.stats(topic, failures=failures)
    return TopicTotal(
        topic,
        len({queue.broker_name for queue in stats}),
        len(stats),
        stored(stats),
        max((place.last_update_timestamp for place in stats.values()), default=0),
    )
