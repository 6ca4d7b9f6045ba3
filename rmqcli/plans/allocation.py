"""Allocation of queues to clients by the strategies of the client library, for `rmq topic allocate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from rmqcli.client.group.allocation import (
    STRATEGIES,
    Allocate,
    averagely,
    by_machine_room,
    machine_room_nearby,
)
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.flows.errors import InvalidInput

OF_ROOMS: Final[Mapping[str, str]] = {
    "MACHINE_ROOM": "--room",
    "MACHINE_ROOM_NEARBY": "--room-of",
    "CONFIG": "--fixed",
}
"""The other strategies, with the option that supplies their input."""


class Given(NamedTuple):
    """The options of `OF_ROOMS`: rooms, `NAME=ROOM` and `CLIENT=BROKER:QUEUE[,QUEUE]`."""

    rooms: Sequence[str] = ()
    room_of: Sequence[str] = ()
    fixed: Sequence[str] = ()


def chosen(names: Sequence[str], given: Given) -> dict[str, Allocate]:
    """Return the named strategies, or without names all that can be computed. Raise InvalidInput for unknown
    ones.
    """
    known = _strategies(given)
    for name in names:
        if name not in known:
            option = OF_ROOMS.get(name)
            every = ", ".join((*STRATEGIES, *OF_ROOMS))
            raise InvalidInput(
                f"--strategy {name} needs {option}" if option else f"--strategy {name}: expected {every}"
            )
    return {name: allocate for name, allocate in known.items() if not names or name in names}


def _strategies(given: Given) -> dict[str, Allocate]:
    found = dict(STRATEGIES)
    if given.rooms:
        found["MACHINE_ROOM"] = by_machine_room(given.rooms)
    if given.room_of:
        found["MACHINE_ROOM_NEARBY"] = _nearby(dict(_pair(text, "NAME=ROOM") for text in given.room_of))
    if given.fixed:
        found["CONFIG"] = _fixed(_assigned(given.fixed))
    return found


def _nearby(rooms: Mapping[str, str]) -> Allocate:
    """Return AVG within each room; names of brokers and clients may contain * and ?."""

    def room(name: str) -> str:
        found = next((room for pattern, room in rooms.items() if fnmatchcase(name, pattern)), None)
        if found is None:
            raise InvalidInput(f"no room of {name}: add --room-of {name}=ROOM")
        return found

    return machine_room_nearby(averagely, lambda queue: room(queue.broker_name), room)


def _fixed(mine: Mapping[str, set[tuple[str, int]]]) -> Allocate:
    """Return a strategy that gives each client its configured queues (Java `AllocateMessageQueueByConfig`,
    one for each client).
    """

    def allocate(client: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        own = mine.get(client, set())
        return [queue for queue in queues if (queue.broker_name, queue.queue_id) in own]

    return allocate


def _assigned(texts: Sequence[str]) -> dict[str, set[tuple[str, int]]]:
    found: dict[str, set[tuple[str, int]]] = {}
    for text in texts:
        client, rest = _pair(text, "CLIENT=BROKER:QUEUE")
        broker, _, numbers = rest.rpartition(":")
        ids = numbers.split(",")
        if not broker or not all(one.isascii() and one.isdecimal() for one in ids):
            raise InvalidInput(
                f"{text!r}: expected CLIENT=BROKER:QUEUE, with several queues separated by ','"
            )
        found.setdefault(client, set()).update((broker, int(one)) for one in ids)
    return found


def _pair(text: str, form: str) -> tuple[str, str]:
    name, _, value = text.rpartition("=")
    if not name or not value:
        raise InvalidInput(f"{text!r}: expected {form}")
    return name, value


def json_name(strategy: str) -> str:
    """Return `avgByCircle` for AVG_BY_CIRCLE."""
    first, *rest = strategy.lower().split("_")
    return first + "".join(word.title() for word in rest)


def owners(
    allocate: Allocate, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> dict[MessageQueue, list[str]]:
    """Return the clients that would get each queue: one, but with CONFIG possibly none or several."""
    ordered, members = sorted(queues), sorted(set(clients))
    found: dict[MessageQueue, list[str]] = {}
    for client in members:
        for queue in allocate(client, ordered, members):
            found.setdefault(queue, []).append(client)
    return found
