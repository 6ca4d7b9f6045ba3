"""The load of a run, and the producer of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import trio

from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.bench.pacing import Pace
from rmqcli.bench.running import Operation, StoredUnsafely
from rmqcli.client import Admin, ClientError, Producer, SendStatus

GROUP = "rmq-bench"


@dataclass(frozen=True, slots=True)
class Load:
    """Operations at a pace, at most `in_flight` at a time, with messages of `size` bytes."""

    pace: Pace
    in_flight: int = 64
    size: int = 128

    def document(self) -> dict[str, Any]:
        """Return the members of the JSON document."""
        pace = self.pace
        limits = {"rate": pace.rate, "count": pace.count, "seconds": pace.seconds}
        return limits | {"inFlight": self.in_flight, "size": self.size}


def producer_of(admin: Admin) -> Producer:
    """Return a producer that neither sends again nor compresses, since both would change what is measured."""
    return Producer(
        GROUP, instance=admin.instance, retries=0, compression=None, send_timeout=admin.instance.timeout
    )


async def send(producer: Producer, message: Message, queue: MessageQueue) -> None:
    """Send one message; raises StoredUnsafely for every status but SEND_OK."""
    sent = await producer.send(message, queue=queue)
    if sent.status is not SendStatus.SEND_OK:
        raise StoredUnsafely(f"{queue.broker_name}: {sent.status.name}")


def sending(producer: Producer, queues: Sequence[MessageQueue], size: int) -> Operation:
    """Return the operation that sends one message of `size` bytes, to the queues in turn."""
    body = bytes(size)

    async def one(number: int, due: float) -> int:
        queue = queues[number % len(queues)]
        await send(producer, Message(topic=queue.topic, body=body), queue)
        return 1

    return one


async def warm_up(producer: Producer, queues: Sequence[MessageQueue], body: bytes) -> None:
    """Open the connections by one message for each broker; what fails here fails again in the run."""
    first = {queue.broker_name: queue for queue in reversed(queues)}

    async def one(queue: MessageQueue) -> None:
        with suppress(ClientError):
            await producer.send(Message(topic=queue.topic, body=body), queue=queue)

    async with trio.open_nursery() as nursery:
        for queue in first.values():
            nursery.start_soon(one, queue)
