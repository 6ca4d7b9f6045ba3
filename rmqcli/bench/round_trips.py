"""Round trips: an operation is one message, from the time at which it was due until it has arrived.

Every queue is read by a long poll of its own, without a group. A message that does not arrive within the time
limit of a request after it was stored has failed.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.bench.load import Load, producer_of, send, warm_up
from rmqcli.bench.running import NotReceived, Tally, run
from rmqcli.client import Admin, ClientError, PullConsumer, PullStatus

PROPERTY = "rmqBench"
SUSPEND = 5.0  # seconds of a long poll
PAUSE = 0.2  # seconds after a failed one


class Arrivals:
    """The messages of one run that are under way, by the value of their property."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._under_way: dict[str, trio.Event] = {}

    def message(self, topic: str, number: int, body: bytes) -> Message:
        return Message.of(topic, body, properties={PROPERTY: self._name(number)})

    def expect(self, number: int) -> trio.Event:
        """Return what is set when the message arrives."""
        self._under_way[self._name(number)] = event = trio.Event()
        return event

    def forget(self, number: int) -> None:
        self._under_way.pop(self._name(number), None)

    def arrived(self, name: str | None) -> None:
        """Note a message with this property; those of others are of no interest."""
        event = self._under_way.get(name or "")
        if event is not None:
            event.set()

    def _name(self, number: int) -> str:
        return f"{self._run_id}-{number}"


async def round_trips(admin: Admin, queues: Sequence[MessageQueue], load: Load, tally: Tally) -> None:
    """Send to the queues in turn, and receive."""
    body, arrivals = bytes(load.size), Arrivals(f"{admin.instance.random.getrandbits(48):012x}")
    limit = admin.instance.timeout
    async with producer_of(admin) as producer, PullConsumer(instance=admin.instance) as consumer:

        async def one(number: int, due: float) -> int:
            queue = queues[number % len(queues)]
            arrival = arrivals.expect(number)
            try:
                await send(producer, arrivals.message(queue.topic, number, body), queue)
                await _arrival(arrival, queue, limit)
            finally:
                arrivals.forget(number)
            return 1

        await warm_up(producer, queues, body)
        begins = [await consumer.max_offset(queue) for queue in queues]
        async with trio.open_nursery() as nursery:
            for queue, begin in zip(queues, begins, strict=True):
                nursery.start_soon(_receive, consumer, queue, begin, arrivals)
            await run(load.pace, load.in_flight, one, tally)
            nursery.cancel_scope.cancel()


async def _arrival(arrival: trio.Event, queue: MessageQueue, limit: float) -> None:
    with trio.move_on_after(limit):
        await arrival.wait()
        return
    raise NotReceived(f"{queue.broker_name}: a message was stored, but did not arrive within {limit:g} s")


async def _receive(consumer: PullConsumer, queue: MessageQueue, offset: int, arrivals: Arrivals) -> None:
    while True:
        try:
            result = await consumer.pull(queue, offset, suspend=SUSPEND)
        except ClientError:  # what it costs is seen in the times, and in messages that do not arrive
            await trio.sleep(PAUSE)
            continue
        offset = result.next_begin_offset
        if result.status is PullStatus.FOUND:
            for message in result.messages:
                arrivals.arrived(message.properties.get(PROPERTY))
