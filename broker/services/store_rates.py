"""Totals and rates of the whole broker for GET_BROKER_RUNTIME_INFO (Java classes `StoreStatsService`, `BrokerStats`).

A total is sampled every second, 601 samples are kept: the rates of the last 10 s, minute and 10 minutes. The time that a
put took is measured in seconds; only those over 1 ms are looked at more closely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import date, datetime
from typing import NamedTuple

import trio

__all__ = ["StoreRates", "Totals"]

KEPT = 601
SPANS = (10, 60, 600)
BOUNDS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
"""Upper ends (ms) of the classes that putMessageDistributeTime counts; one more is open."""
CLASSES = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]"),
    *("[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)


class Totals(NamedTuple):
    """What was counted until `time` (ms)."""

    time: int
    puts: int
    found: int
    missed: int
    transferred: int


class StoreRates:
    """Counters that the handlers add to."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.put_messages = 0
        self.put_failures = 0
        self.put_bytes = 0
        self.found = 0
        self.missed = 0
        self.transferred = 0
        self.longest_put_ms = 0
        self.slow_puts = [0] * (len(BOUNDS) + 1)
        self._samples: deque[Totals] = deque([self._totals()], maxlen=KEPT)
        self._day = self._today()
        self.mornings = {"put": (0, 0), "get": (0, 0)}

    def slow_put(self, seconds: float) -> None:
        """A put that took more than 1 ms."""
        took = int(seconds * 1000)
        self.longest_put_ms = max(self.longest_put_ms, took)
        self.slow_puts[sum(took > bound for bound in BOUNDS)] += 1

    def put_times(self) -> str:
        """The distribution of put times as Java prints it."""
        counts = list(self.slow_puts)
        counts[0] = max(0, self.put_messages - sum(counts[1:]))
        return "".join(f"{name}:{count} " for name, count in zip(CLASSES, counts, strict=True))

    def rates(self, *columns: str) -> str:
        """The rate of the sum of some totals over 10 s, 1 min, 10 min; those that have samples enough."""
        samples = self._samples
        parts = []
        for span in SPANS:
            if len(samples) > span:
                first, last = samples[-span - 1], samples[-1]
                counted = sum(getattr(last, name) - getattr(first, name) for name in columns)
                parts.append(f"{counted * 1000 / max(1, last.time - first.time)}")
            else:
                parts.append("")
        return " ".join(parts)

    def sample(self) -> None:
        """Takes the next sample; to be called every second."""
        self._samples.append(self._totals())
        today = self._today()
        if today != self._day:
            self._day = today
            self.mornings = {
                "put": (self.mornings["put"][1], self.put_messages),
                "get": (self.mornings["get"][1], self.transferred),
            }

    async def run(self) -> None:
        """Samples until cancelled."""
        while True:
            await trio.sleep(1)
            self.sample()

    def _totals(self) -> Totals:
        return Totals(self._now_ms(), self.put_messages, self.found, self.missed, self.transferred)

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now_ms() / 1000).date()  # the local day, as Java counts
