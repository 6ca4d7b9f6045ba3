"""Strategies that allocate the queues of a topic to the members of a group, given only these two lists (Java
`AllocateMessageQueueStrategy`).

Each member, or a broker for all of them, computes the same allocation, so each queue has one owner. `queues`
are sorted by topic, broker and queue id, `clients` lexicographically; `client` must be one of them.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rmqcli.codec.message_queue import MessageQueue

Allocate = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]
"""(own client id, all queues, all client ids) → own queues."""

# Java's number: with another one, members of both kinds would disagree on the owners of queues.
VIRTUAL_NODES = 10


def averagely(client: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
    """Return contiguous queues; the first members get one more (AVG, the default)."""
    index, (share, rest) = clients.index(client), divmod(len(queues), len(clients))
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def averagely_by_circle(
    client: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> list[MessageQueue]:
    """Return the queues that the member gets when they are dealt out in turn (AVG_BY_CIRCLE)."""
    return list(queues[clients.index(client) :: len(clients)])


def consistent_hash(
    client: str, queues: Sequence[MessageQueue], clients: Sequence[str], nodes: int = VIRTUAL_NODES
) -> list[MessageQueue]:
    """Return queues by a ring of MD5 hashes; few queues move when a member joins or leaves
    (CONSISTENT_HASH).
    """
    ring = {_hash(f"{member}-{number}"): member for member in clients for number in range(nodes)}
    points = sorted(ring)

    def owner(queue: MessageQueue) -> str:
        index = bisect_left(points, _hash(_java_text(queue)))
        return ring[points[index % len(points)]]

    return [queue for queue in queues if owner(queue) == client]


STRATEGIES: Final[Mapping[str, Allocate]] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
    "CONSISTENT_HASH": consistent_hash,
}
"""The strategies by their names in Java."""


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _java_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
