"""Tells the topics of applications from those that RocketMQ creates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codec.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic, reply_topic

if TYPE_CHECKING:
    from codec.bodies.route import ClusterInfo


def own_topics(info: ClusterInfo) -> set[str]:
    """Return the topics that every broker creates for itself, named after it and its cluster."""
    clusters = set(info.cluster_addr_table)
    return clusters | {reply_topic(name) for name in clusters} | set(info.broker_addr_table)


def application_topics(names: Iterable[str], info: ClusterInfo) -> list[str]:
    """Return the names without system, retry and dead-letter topics, in their order."""
    hidden = own_topics(info)
    return [
        name
        for name in names
        if name not in hidden
        and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))
        and not is_system_topic(name)
    ]
