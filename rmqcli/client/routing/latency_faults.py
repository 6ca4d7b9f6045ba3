"""Which brokers answer badly and are left alone for a while (Java `MQFaultStrategy`, `LatencyFaultToleranceImpl`).

The time that a send took puts its broker aside: from 550 ms on for 30 s, up to 600 s. A send that failed counts as
30 s, which is 600 s aside. Times are seconds on trio's clock.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import trio

from codec.message_queue import MessageQueue

LATENCY_MAX = (0.05, 0.1, 0.55, 1.0, 2.0, 3.0, 15.0)
NOT_AVAILABLE = (0.0, 0.0, 30.0, 60.0, 120.0, 180.0, 600.0)
FAILED = 30.0


def aside_for(latency: float) -> float:
    """How long a broker is left alone after a send that took `latency`."""
    place = bisect_right(LATENCY_MAX, latency)
    return NOT_AVAILABLE[place - 1] if place else 0.0


class _Fault(NamedTuple):
    latency: float
    until: float


class LatencyFaults:
    """What one producer learned of its brokers."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        self._faults: dict[str, _Fault] = {}
        self._turn = rng.randrange(1 << 31)

    def update(self, broker: str, latency: float, *, failed: bool = False) -> None:
        """A send to `broker` took `latency` seconds; `failed`: nobody knows how long it would have taken."""
        seconds = FAILED if failed else latency
        self._faults[broker] = _Fault(seconds, trio.current_time() + aside_for(seconds))

    def is_available(self, broker: str) -> bool:
        fault = self._faults.get(broker)
        return fault is None or fault.until <= trio.current_time()

    def choose(
        self, queues: Sequence[MessageQueue], following: Callable[[Sequence[MessageQueue]], MessageQueue]
    ) -> MessageQueue:
        """A queue of an available broker; when there is none, of one of the better half. `following` takes the next of
        some queues in turn."""
        good = [queue for queue in queues if self.is_available(queue.broker_name)]
        if not good:
            broker = self._one_of_the_better({queue.broker_name for queue in queues})
            good = [queue for queue in queues if queue.broker_name == broker]
        return following(good)

    def _one_of_the_better(self, brokers: set[str]) -> str:
        """All are aside: the better half takes turns."""
        ranked = sorted(brokers, key=lambda broker: self._faults[broker])
        self._turn += 1
        return ranked[self._turn % max(1, len(ranked) // 2)]
