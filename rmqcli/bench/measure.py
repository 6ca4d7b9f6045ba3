"""A benchmark, from its topic to the document of its result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import trio

from rmqcli.bench.running import (
    Load,
    NotPulled,
    NotReceived,
    Pace,
    Tally,
    producer_of,
    run,
    send,
    sending,
    warm_up,
)
from rmqcli.client import (
    Admin,
    ClientError,
    ConnectionLost,
    InvalidRequest,
    PullConsumer,
    PullStatus,
    RequestTimeout,
)
from rmqcli.codec.codes import Perm
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue

# Pulls: an operation is one request for up to BATCH stored messages.
#
# Every queue is read from its first message to its last, and then again. No group is joined, no offset moves.

BATCH = 32
FILL, FILL_BYTES, FILL_RATE = 1000, 64 * 1024 * 1024, 1e6


async def fill(admin: Admin, queues: Sequence[MessageQueue], load: Load) -> None:
    """Store up to FILL messages, of at most FILL_BYTES in total, to be pulled. Raise the error if none is
    stored.
    """
    tally = Tally()
    count = max(min(FILL, FILL_BYTES // load.size), len(queues))
    async with producer_of(admin) as producer:
        await run(Pace(FILL_RATE, count=count), load.in_flight, sending(producer, queues, load.size), tally)
    if not tally.done:
        raise next(iter(tally.errors.values()))


class Cursor:
    """The position in a queue whose offsets are [begin, end)."""

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
    """Pull from the queues in turn. Raise InvalidRequest if all are empty."""
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


# Round trips: an operation is one message, from the time at which it was due until it has arrived.
#
# Every queue is read by a separate long poll, without a group. A message that does not arrive within the time
# limit of a request after it was stored has failed.

PROPERTY = "rmqBench"
SUSPEND = 5.0  # seconds of a long poll
PAUSE = 0.2  # seconds after a failed one


class Arrivals:
    """The messages of one run that have not arrived yet, by the value of their property."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._under_way: dict[str, trio.Event] = {}

    def message(self, topic: str, number: int, body: bytes) -> Message:
        return Message.of(topic, body, properties={PROPERTY: self._name(number)})

    def expect(self, number: int) -> trio.Event:
        """Return an event that is set when the message arrives."""
        self._under_way[self._name(number)] = event = trio.Event()
        return event

    def forget(self, number: int) -> None:
        self._under_way.pop(self._name(number), None)

    def arrived(self, name: str | None) -> None:
        """Record the arrival of the message with this property; ignore messages of others."""
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
            # Before the send: the message may arrive before its acknowledgement.
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
        except ClientError:  # its effect shows in the times, and in messages that do not arrive
            await trio.sleep(PAUSE)
            continue
        offset = result.next_begin_offset
        if result.status is PullStatus.FOUND:
            for message in result.messages:
                arrivals.arrived(message.properties.get(PROPERTY))


async def sends(admin: Admin, queues: Sequence[MessageQueue], load: Load, tally: Tally) -> None:
    """Send to the queues in turn."""
    async with producer_of(admin) as producer:
        await warm_up(producer, queues, bytes(load.size))
        await run(load.pace, load.in_flight, sending(producer, queues, load.size), tally)


PREFIX = "RMQ_BENCH_"
QUEUES = 8
CLEAN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """The topic that is measured: an existing one or, without a name, a new one on these masters; empty: on
    all masters.

    `troubles` receives the reasons why brokers did not create the topic, or why it could not be removed.
    """

    topic: str | None = None
    brokers: Collection[str] = ()
    cluster: str | None = None
    troubles: dict[str, ClientError | str] = field(default_factory=dict)

    @property
    def is_own(self) -> bool:
        """True if the topic is created for the run."""
        return self.topic is None


@asynccontextmanager
async def opened(admin: Admin, place: Place, perm: Perm = Perm.WRITE) -> AsyncIterator[list[MessageQueue]]:
    """Yield the queues that have a permission. A topic created for the run is removed at the end, even when
    cancelled.

    Raise NoRoute if the topic does not exist, InvalidRequest if it has no queue on these masters, or another
    ClientError.
    """
    if place.topic is not None:
        yield await _existing(admin, place.topic, place, perm)
        return
    topic = f"{PREFIX}{admin.instance.random.getrandbits(48):012x}"
    try:
        change = await admin.topics.create(
            topic,
            brokers=place.brokers,
            cluster=place.cluster,
            read_queues=QUEUES,
            write_queues=QUEUES,
        )
        place.troubles.update({name: of_creation(topic, why) for name, why in change.failures.items()})
        yield [MessageQueue(topic, name, number) for number in range(QUEUES) for name in change.brokers]
    finally:
        with trio.move_on_after(CLEAN_SECONDS, shield=True):
            await _remove(admin, topic, place)


def of_creation(topic: str, error: ClientError) -> ClientError | str:
    """Return the error of a creation. For a broker that did not respond, add that it may still create the
    topic.
    """
    if not isinstance(error, (ConnectionLost, RequestTimeout)):
        return error
    return f"{error}; it may still make the topic: rmq topic delete {topic}"


async def _existing(admin: Admin, topic: str, place: Place, perm: Perm) -> list[MessageQueue]:
    masters = await admin.brokers.masters(brokers=place.brokers, cluster=place.cluster)
    route = await admin.topics.route(topic)
    queues = [
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if data.broker_name in masters and data.perm & perm
        for number in range(data.read_queue_nums if perm == Perm.READ else data.write_queue_nums)
    ]
    if not queues:
        verb = "read" if perm == Perm.READ else "written"
        raise InvalidRequest(f"topic {topic} has no queue on the chosen brokers that may be {verb}")
    return sorted(queues, key=lambda queue: (queue.queue_id, queue.broker_name))


async def _remove(admin: Admin, topic: str, place: Place) -> None:
    try:
        failures = (await admin.topics.delete(topic)).failures
    except ClientError as error:
        with suppress(ClientError):
            await admin.topics.route(topic)
            place.troubles[topic] = f"could not be removed: {error}"
        return
    for name, failure in failures.items():
        place.troubles[topic] = f"could not be removed from {name}: {failure}; use: rmq topic delete {topic}"


Kind = Callable[[Admin, Sequence[MessageQueue], Load, Tally], Awaitable[None]]
KINDS: Mapping[str, Kind] = {"send": sends, "consume": pulls, "e2e": round_trips}


async def measure(admin: Admin, kind: str, place: Place, load: Load, tally: Tally | None = None) -> Tally:
    """Run a benchmark of KINDS, counted in a tally. Raise ClientError if it cannot begin."""
    tally, perm = tally or Tally(), Perm.READ if kind == "consume" else Perm.WRITE
    async with opened(admin, place, perm) as queues:
        if kind == "consume" and place.is_own:
            await fill(admin, queues, load)
        await KINDS[kind](admin, queues, load, tally)
    return tally


def document(kind: str, place: Place, load: Load, tally: Tally) -> dict[str, Any]:
    """Return the JSON document: times in microseconds, `elapsed` in seconds, inclusive ends of buckets."""
    return {"bench": kind, "topic": place.topic, **load.document(), **tally.document()}
