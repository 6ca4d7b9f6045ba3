"""Sends: an operation is one message, until the broker acknowledges it."""

from __future__ import annotations

from collections.abc import Sequence

from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.bench.load import Load, producer_of, send, warm_up
from rmqcli.bench.running import Tally, run
from rmqcli.client import Admin


async def sends(admin: Admin, queues: Sequence[MessageQueue], load: Load, tally: Tally) -> None:
    """Send to the queues in turn."""
    body = bytes(load.size)
    async with producer_of(admin) as producer:

        async def one(number: int, due: float) -> int:
            queue = queues[number % len(queues)]
            await send(producer, Message(topic=queue.topic, body=body), queue)
            return 1

        await warm_up(producer, queues, body)
        await run(load.pace, load.in_flight, one, tally)
