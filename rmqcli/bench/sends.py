"""Sends: an operation is one message, until the broker acknowledges it."""

from __future__ import annotations

from collections.abc import Sequence

from codec.message_queue import MessageQueue
from rmqcli.bench.load import Load, producer_of, sending, warm_up
from rmqcli.bench.running import Tally, run
from rmqcli.client import Admin


async def sends(admin: Admin, queues: Sequence[MessageQueue], load: Load, tally: Tally) -> None:
    """Send to the queues in turn."""
    async with producer_of(admin) as producer:
        await warm_up(producer, queues, bytes(load.size))
        await run(load.pace, load.in_flight, sending(producer, queues, load.size), tally)
