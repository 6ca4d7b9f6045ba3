"""Allocates queues by the strategies of the client library over a list of clients: who would consume which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codec.message_queue import MessageQueue
from rmqcli.client.group.allocation import Allocate, averagely, averagely_by_circle, consistent_hash

STRATEGIES: Mapping[str, Allocate] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
    "CONSISTENT_HASH": consistent_hash,
}
"""The strategies that need nothing but queues and clients, by their names in Java."""


def json_name(strategy: str) -> str:
    """Return `avgByCircle` for AVG_BY_CIRCLE."""
    first, *rest = strategy.lower().split("_")
    return first + "".join(word.title() for word in rest)


def owners(strategy: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> dict[MessageQueue, str]:
    """Return the client that would get each queue."""
    ordered, members = sorted(queues), sorted(set(clients))
    allocate = STRATEGIES[strategy]
    return {queue: client for client in members for queue in allocate(client, ordered, members)}
