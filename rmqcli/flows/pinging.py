"""Round trips of sends to brokers, one task for each broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from math import ceil
from typing import NamedTuple

import trio

from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.client import UNREACHED, ClientError, Producer


class Ping(NamedTuple):
    """The round trips to one broker in milliseconds, sorted, the number of failed sends, and the last error.

    A broker that does not answer is not asked again.
    """

    times: tuple[float, ...]
    failed: int
    error: ClientError | None

    def percentile(self, part: float) -> float | None:
        """Return the time that a part (0 to 1) of the sends did not exceed (nearest rank); None without any."""
        return self.times[max(0, ceil(part * len(self.times)) - 1)] if self.times else None


async def queues_of(producer: Producer, topic: str) -> dict[str, list[MessageQueue]]:
    """Return the writable queues of a topic by broker."""
    found: dict[str, list[MessageQueue]] = {}
    for queue in await producer.message_queues(topic):
        found.setdefault(queue.broker_name, []).append(queue)
    return found


def own_queues(brokers: Sequence[str]) -> dict[str, list[MessageQueue]]:
    """Return the queue that every broker has of its own, in the topic of its name."""
    return {name: [MessageQueue(name, name, 0)] for name in brokers}


async def ping(
    producer: Producer,
    queues: Mapping[str, Sequence[MessageQueue]],
    *,
    count: int,
    size: int,
    interval: float = 0.0,
) -> dict[str, Ping]:
    """Send `count` messages of `size` bytes to each broker, one after another, `interval` seconds apart.

    One more message is sent first, which opens the connection and is not measured.
    """
    found: dict[str, Ping] = {}

    async def one(name: str) -> None:
        found[name] = await _ping(producer, queues[name], count, bytes(size), interval)

    async with trio.open_nursery() as nursery:
        for name in queues:
            nursery.start_soon(one, name)
    return {name: found[name] for name in queues}


async def _ping(
    producer: Producer, queues: Sequence[MessageQueue], count: int, body: bytes, interval: float
) -> Ping:
    times: list[float] = []
    failed, last = 0, None
    for number, queue in enumerate(islice(cycle(queues), count + 1)):
        if number:
            await trio.sleep(interval)
        begun = trio.current_time()
        try:
            await producer.send(Message(topic=queue.topic, body=body), queue=queue)
        except ClientError as error:
            failed, last = failed + 1, error
            if isinstance(error, UNREACHED):
                break
        else:
            if number:
                times.append((trio.current_time() - begun) * 1000)
    return Ping(tuple(sorted(times)), failed, last)
