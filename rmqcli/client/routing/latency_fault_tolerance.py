"""Avoidance of brokers that respond slowly or fail (Java `MQFaultStrategy`, `LatencyFaultToleranceImpl`).

The latency of a send makes its broker unavailable: from 550 ms on for 30 s, and up to 600 s. A failed send
counts as a latency of 30 s, which means 600 s. Times are seconds on trio's clock.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import trio

from rmqcli.codec.message_queue import MessageQueue

LATENCY_MAX = (0.05, 0.1, 0.55, 1.0, 2.0, 3.0, 15.0)
NOT_AVAILABLE = (0.0, 0.0, 30.0, 60.0, 120.0, 180.0, 600.0)
FAILED = 30.0


def aside_for(latency: float) -> float:
    """Return the seconds for which a broker is avoided after a send that took `latency` seconds."""
    index = bisect_right(LATENCY_MAX, latency)
    return NOT_AVAILABLE[index - 1] if index else 0.0


class _Fault(NamedTuple):
    latency: float
    until: float


class LatencyFaults:
    """The latencies measured by one producer."""

    def __init__(self, rng: random.Random) -> None:
        self._faults: dict[str, _Fault] = {}
        self._turn = rng.randrange(1 << 31)

    def update(self, broker: str, latency: float, *, failed: bool = False) -> None:
        """Record a send to `broker` that took `latency` seconds, or that failed."""
        seconds = FAILED if failed else latency
        self._faults[broker] = _Fault(seconds, trio.current_time() + aside_for(seconds))

    def is_available(self, broker: str) -> bool:
        fault = self._faults.get(broker)
        return fault is None or fault.until <= trio.current_time()

    def choose(
        self, queues: Sequence[MessageQueue], following: Callable[[Sequence[MessageQueue]], MessageQueue]
    ) -> MessageQueue:
        """Return a queue of an available broker, or of the better half of brokers.

        `following` takes turns among queues.
        """
        good = [queue for queue in queues if self.is_available(queue.broker_name)]
        if not good:
            ranked = sorted({queue.broker_name for queue in queues}, key=lambda name: self._faults[name])
            self._turn += 1
            broker = ranked[self._turn % max(1, len(ranked) // 2)]
            good = [queue for queue in queues if queue.broker_name == broker]
        return following(good)
