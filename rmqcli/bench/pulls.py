"""Pulls: an operation is one request for up to BATCH messages, which are there.

Every queue is read from its first message to its last, and then again. No group is joined, no offset moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from codec.message_queue import MessageQueue
from rmqcli.bench.load import Load, producer_of, sending
from rmqcli.bench.pacing import Pace
from rmqcli.bench.running import NotPulled, Tally, run
from rmqcli.client import Admin, InvalidRequest, PullConsumer, PullStatus

BATCH = 32
FILL, FILL_BYTES, FILL_RATE = 1000, 64 * 1024 * 1024, 1e6


async def fill(admin: Admin, queues: Sequence[MessageQueue], load: Load) -> None:
    """Store up to FILL messages, of at most FILL_BYTES, to be pulled; raises the error if none is stored."""
    tally = Tally()
    count = max(min(FILL, FILL_BYTES // load.size), len(queues))
    async with producer_of(admin) as producer:
        await run(Pace(FILL_RATE, count=count), load.in_flight, sending(producer, queues, load.size), tally)
    if not tally.done:
        raise next(iter(tally.errors.values()))


class Cursor:
    """The place in a queue whose offsets are [begin, end)."""

    def __init__(self, queue: MessageQueue, begin: int, end: int) -> None:
        self.queue = queue
        self._begin, self._end = begin, end
        self._next = begin

    def take(self) -> tuple[int, int]:
        """Return the offset and the number of messages of the next pull."""
        offset = self._next
        count = min(BATCH, self._end - offset)
        self._next = offset + count if offset + count < self._end else self._begin
        return offset, count


async def pulls(admin: Admin, queues: Sequence[MessageQueue], load: Load, tally: Tally) -> None:
    """Pull from the queues in turn; raises InvalidRequest if all are empty."""
    async with PullConsumer(instance=admin.instance) as consumer:
        cursors = await _cursors(consumer, queues)

        async def one(number: int, due: float) -> int:
            cursor = cursors[number % len(cursors)]
            offset, count = cursor.take()
            result = await consumer.pull(cursor.queue, offset, count)
            if result.status is not PullStatus.FOUND:
                raise NotPulled(f"{cursor.queue.broker_name}: {result.status.name} at offset {offset}")
            return len(result.messages)

        await run(load.pace, load.in_flight, one, tally)


async def _cursors(consumer: PullConsumer, queues: Sequence[MessageQueue]) -> list[Cursor]:
    found: dict[MessageQueue, Cursor] = {}

    async def look(queue: MessageQueue) -> None:
        begin, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
        if begin < end:
            found[queue] = Cursor(queue, begin, end)

    async with trio.open_nursery() as nursery:
        for queue in queues:
            nursery.start_soon(look, queue)
    if not found:
        raise InvalidRequest(f"topic {queues[0].topic} has no message to pull")
    return [found[queue] for queue in queues if queue in found]
