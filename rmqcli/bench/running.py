"""Runs operations at a pace, at most so many at a time, and counts what comes of each.

An operation that finds no room waits, which its latency includes. The time of a worker that sleeps has a
precision of about a millisecond, which latencies include and times of service do not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import trio

from rmqcli.bench.histogram import Histogram
from rmqcli.bench.pacing import Pace
from rmqcli.client import (
    BrokerRefused,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    RequestTimeout,
)


class StoredUnsafely(ClientError):
    """A message that was stored, but not flushed or replicated in time."""


class NotPulled(ClientError):
    """A pull without messages where there had been some."""


class NotReceived(ClientError):
    """A message that was stored, but did not arrive in time."""


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
"""Carries out operation `number`, due at a time of trio's clock; returns the number of messages, raises
ClientError."""


@dataclass(slots=True)
class Tally:
    """The result of a run. `failed` counts operations by kind, `errors` holds the last error of each kind.

    `latency` counts from the time at which an operation was due, `service` from its start; neither has those
    that failed. `started` operations of `due` ones; None: their number has no end. Times are seconds.
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
        """Operations that were due, but found no room before the end."""
        return (self.due or self.started) - self.started

    @property
    def rate(self) -> float:
        """Operations a second that succeeded."""
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
    """Carry out the operations of a pace into `tally`, at most `in_flight` at a time."""
    tally.due = pace.total
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(in_flight if tally.due is None else min(in_flight, tally.due)):
            nursery.start_soon(_work, pace, begun, operation, tally)
    tally.seconds = trio.current_time() - begun


async def _work(pace: Pace, begun: float, operation: Operation, tally: Tally) -> None:
    while tally.due is None or tally.started < tally.due:
        due = begun + pace.due(tally.started)
        if pace.over(max(trio.current_time(), due) - begun):
            return
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
