"""Runs operations at a pace, with a limit on those in flight, and counts their results.

An operation above the limit waits, which its latency includes. A sleeping worker wakes with a precision of
about a millisecond, which latencies include and service times do not.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import trio

from rmqcli.bench.histogram import Histogram
from rmqcli.client import (
    Admin,
    BrokerRefused,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    Producer,
    RequestTimeout,
    SendStatus,
)
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue

# The times at which operations are due. Times are seconds after the begin of the run.
#
# The load is open: an operation is due at its time regardless of earlier ones, and its latency counts from
# then. A server that stalls is thus charged for every operation that it delays (no coordinated omission).


@dataclass(frozen=True, slots=True)
class Pace:
    """`rate` operations per second, at most `count` of them, and only those that start within `seconds`;
    None: no limit.
    """

    rate: float
    count: int | None = None
    seconds: float | None = None

    def due(self, number: int) -> float:
        """Return the time at which operation `number` (from 0) is due."""
        return number / self.rate

    @property
    def total(self) -> int | None:
        """The number of operations that become due; None: unlimited."""
        in_time = None if self.seconds is None else math.ceil(self.seconds * self.rate)
        limits = [limit for limit in (self.count, in_time) if limit is not None]
        return min(limits, default=None)

    def over(self, now: float) -> bool:
        """Return True if it is too late to start an operation."""
        return self.seconds is not None and now >= self.seconds


class StoredUnsafely(ClientError):
    """A message was stored, but not flushed or replicated in time."""


class NotPulled(ClientError):
    """A pull returned no messages although the queue had some."""


class NotReceived(ClientError):
    """A message was stored, but did not arrive in time."""


_KINDS: tuple[tuple[type[ClientError], str], ...] = (
    (RequestTimeout, "timedOut"),
    (ConnectionFailed, "unreached"),
    (ConnectionLost, "unreached"),
    (BrokerRefused, "refused"),
    (StoredUnsafely, "storedUnsafely"),
    (NotPulled, "notPulled"),
    (NotReceived, "notReceived"),
)
OTHER = "failed"

Operation = Callable[[int, float], Awaitable[int]]
"""Carries out operation `number`, due at a time of trio's clock. Returns the number of messages, and raises
ClientError.
"""


@dataclass(slots=True)
class Tally:
    """The result of a run. `failed` counts operations by kind, `errors` holds the last error of each kind.

    `latency` is measured from the time at which an operation was due, `service` from its start; both exclude
    failed operations. `started` of the `due` operations were started; `due` is None if unlimited. Times are
    in seconds.
    """

    due: int | None = None
    started: int = 0
    done: int = 0
    messages: int = 0
    seconds: float = 0.0
    failed: dict[str, int] = field(default_factory=dict)
    errors: dict[str, ClientError] = field(default_factory=dict)
    latency: Histogram = field(default_factory=Histogram)
    service: Histogram = field(default_factory=Histogram)

    def fail(self, error: ClientError) -> None:
        """Count a failed operation."""
        kind = next((name for family, name in _KINDS if isinstance(error, family)), OTHER)
        self.failed[kind] = self.failed.get(kind, 0) + 1
        self.errors[kind] = error

    @property
    def not_started(self) -> int:
        """The number of operations that were due but could not start before the end."""
        return (self.due or self.started) - self.started

    @property
    def rate(self) -> float:
        """The successful operations per second."""
        return self.done / self.seconds if self.seconds else 0.0

    def document(self) -> dict[str, Any]:
        """Return the members of the JSON document."""
        return {
            "elapsed": round(self.seconds, 6),
            "done": self.done,
            "doneRate": round(self.rate, 3),
            "messages": self.messages,
            "failed": dict(sorted(self.failed.items())),
            "notStarted": self.not_started,
            "latency": _times(self.latency),
            "service": _times(self.service),
        }


def _times(found: Histogram) -> dict[str, Any]:
    return found.summary() | {"buckets": [asdict(one) for one in found.buckets()]}


async def run(pace: Pace, in_flight: int, operation: Operation, tally: Tally) -> None:
    """Carry out the operations of a pace, at most `in_flight` at a time, and count them in `tally`."""
    tally.due = pace.total
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(in_flight if tally.due is None else min(in_flight, tally.due)):
            nursery.start_soon(_work, pace, begun, operation, tally)
    tally.seconds = trio.current_time() - begun


async def _work(pace: Pace, begun: float, operation: Operation, tally: Tally) -> None:
    while tally.due is None or tally.started < tally.due:
        due = begun + pace.due(tally.started)
        # A late worker would start the operation now, not when it was due.
        if pace.over(max(trio.current_time(), due) - begun):
            return
        # Without a checkpoint since `started` was compared: no other worker can take the same number.
        number = tally.started
        tally.started += 1
        await trio.sleep_until(due)
        await _one(number, due, operation, tally)


async def _one(number: int, due: float, operation: Operation, tally: Tally) -> None:
    started = trio.current_time()
    try:
        messages = await operation(number, due)
    except ClientError as error:
        tally.fail(error)
        return
    now = trio.current_time()
    tally.done += 1
    tally.messages += messages
    tally.latency.record(now - due)
    tally.service.record(now - started)


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
    """Return a producer that neither retries nor compresses, because both would change what is measured."""
    return Producer(
        GROUP, instance=admin.instance, retries=0, compression=None, send_timeout=admin.instance.timeout
    )


async def send(producer: Producer, message: Message, queue: MessageQueue) -> None:
    """Send one message. Raise StoredUnsafely for every status but SEND_OK."""
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
    """Open the connections by sending one message to each broker. Errors are ignored: they occur again in the
    run.
    """
    # Reversed, so that the first queue of each broker remains.
    first = {queue.broker_name: queue for queue in reversed(queues)}

    async def one(queue: MessageQueue) -> None:
        with suppress(ClientError):
            await producer.send(Message(topic=queue.topic, body=body), queue=queue)

    async with trio.open_nursery() as nursery:
        for queue in first.values():
            nursery.start_soon(one, queue)
