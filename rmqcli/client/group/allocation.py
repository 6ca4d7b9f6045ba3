"""Strategies that allocate the queues of a topic to the members of a group.

They are the strategies of `rmqcli.codec.allocation`, and those that need more than the two lists (Java
`AllocateMessageQueueStrategy`). Every member computes the same allocation from the same two lists, so each
queue has one owner. `queues` are sorted by topic, broker and number, `clients` lexicographically; `client`
must be one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain

from rmqcli.codec.allocation import STRATEGIES, Allocate, averagely, averagely_by_circle, consistent_hash
from rmqcli.codec.message_queue import MessageQueue

__all__ = [
    "STRATEGIES",
    "Allocate",
    "averagely",
    "averagely_by_circle",
    "by_config",
    "by_machine_room",
    "consistent_hash",
    "machine_room_nearby",
]


def by_config(mine: Collection[MessageQueue]) -> Allocate:
    """Return a strategy that allocates a fixed list, independent of the group (CONFIG)."""
    fixed = list(mine)
    return lambda client, queues, clients: list(fixed)


def by_machine_room(rooms: Collection[str]) -> Allocate:
    """Return a strategy that uses only queues of brokers named `room@name` in these rooms (MACHINE_ROOM)."""

    def allocate(client: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        near = [queue for queue in queues if room_of(queue) in rooms]
        index, (share, rest) = clients.index(client), divmod(len(near), len(clients))
        mine = near[index * share : (index + 1) * share]
        return mine + near[index + share * len(clients) :][:1] if rest > index else mine

    return allocate


def machine_room_nearby(
    inner: Allocate, room_of_queue: Callable[[MessageQueue], str], room_of_client: Callable[[str], str]
) -> Allocate:
    """Apply `inner` within each room.

    All members share the queues of a room without members (MACHINE_ROOM_NEARBY).
    """

    def allocate(client: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        own = room_of_client(client)
        inhabited = {room_of_client(member) for member in clients}
        by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_room.setdefault(room_of_queue(queue), []).append(queue)
        neighbours = [member for member in clients if room_of_client(member) == own]
        shared = [by_room[room] for room in sorted(by_room.keys() - inhabited)]
        mine = [inner(client, by_room[own], neighbours)] if own in by_room else []
        mine += [inner(client, near, clients) for near in shared]
        return list(chain.from_iterable(mine))

    return allocate


def room_of(queue: MessageQueue) -> str | None:
    """Return the machine room in the name of a broker, or None."""
    room, at, name = queue.broker_name.partition("@")
    return room if at and "@" not in name else None
