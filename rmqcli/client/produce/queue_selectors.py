"""Choice of a queue: round robin from a random start, or a selector (Java `MessageQueueSelector`)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Sequence

from codec.core.hashing import java_string_hash
from codec.message import Message
from codec.message_queue import MessageQueue

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Selects one of the writable queues, at least one. A failed send is not retried elsewhere."""


class RoundRobin:
    """The default choice (Java `TopicPublishInfo.selectOneMessageQueue`)."""

    def __init__(self, rng: random.Random) -> None:
        self._index = rng.randrange(1 << 31)

    def choose(self, queues: Sequence[MessageQueue], avoid: str | None = None) -> MessageQueue:
        """Return the next queue, if possible on a broker other than `avoid`, which failed before."""
        count = len(queues)
        if avoid is not None:
            for _ in range(count):
                self._index += 1
                queue = queues[self._index % count]
                if queue.broker_name != avoid:
                    return queue
        self._index += 1
        return queues[self._index % count]


def by_hash(key: str) -> QueueSelector:
    """Return the same queue for the same key (Java `SelectMessageQueueByHash` with a String)."""
    number = java_string_hash(key)

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        # In Java % keeps the sign, which the selector then drops
        return queues[abs(number) % len(queues)]

    return select


def by_queue_id(queue_id: int, broker_name: str | None = None) -> QueueSelector:
    """Return the queue with this number on the named broker, or on the first with it; ValueError if none."""

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        for queue in queues:
            if queue.queue_id == queue_id and broker_name in (None, queue.broker_name):
                return queue
        where = f" on broker {broker_name}" if broker_name else ""
        raise ValueError(f"topic {message.topic} has no writable queue {queue_id}{where}")

    return select


def by_random(rng: random.Random | None = None) -> QueueSelector:
    """Return a random queue (Java `SelectMessageQueueByRandom`)."""
    source = rng or random.Random()
    return lambda queues, message: source.choice(queues)


def by_machine_room(rooms: Collection[str]) -> QueueSelector:
    """In turn, the queues of brokers named `room@name` with one of these rooms; ValueError if none."""
    turn = itertools.count()

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        near = [queue for queue in queues if room_of(queue) in rooms]
        if not near:
            raise ValueError(f"topic {message.topic} has no queue in {', '.join(sorted(rooms)) or 'no room'}")
        return near[next(turn) % len(near)]

    return select


def room_of(queue: MessageQueue) -> str | None:
    """Return the machine room in the name of a broker, or None."""
    room, at, name = queue.broker_name.partition("@")
    return room if at and "@" not in name else None
