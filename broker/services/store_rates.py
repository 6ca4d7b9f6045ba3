"""Totals and rates of the whole broker for GET_BROKER_RUNTIME_INFO (Java classes `StoreStatsService`, `BrokerStats`).

A total is sampled every second, 601 samples are kept: the rates of the last 10 s, minute and 10 minutes. Once a minute the
times of its puts become the ones that are shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import date, datetime
from typing import NamedTuple

import trio

from broker.services.put_times import PutTimes

__all__ = ["StoreRates", "Totals"]

KEPT = 601
SPANS = (10, 60, 600)
MINUTE_MS = 60_000


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
        self.put_in_company = 0
        """Of those, in batches behind the first: a batch is one put."""
        self.put_failures = 0
        self.put_bytes = 0
        self.found = 0
        self.missed = 0
        self.transferred = 0
        self.put_times = PutTimes()
        self.longest_get_seconds = 0.0
        self._samples: deque[Totals] = deque([self._totals()], maxlen=KEPT)
        self._minute_began = now_ms()
        self._day = self._today()
        self.mornings = {"put": (0, 0), "get": (0, 0)}

    def slow_put(self, seconds: float) -> None:
        """A put that took more than 1 ms."""
        self.put_times.slow(int(seconds * 1000))

    def rates(self, *columns: str, unknown: str = "") -> str:
        """The rate of the sum of some totals over 10 s, 1 min, 10 min; `unknown` where there are not samples enough."""
        samples = self._samples
        parts = []
        for span in SPANS:
            if len(samples) > span:
                first, last = samples[-span - 1], samples[-1]
                counted = sum(getattr(last, name) - getattr(first, name) for name in columns)
                parts.append(f"{counted * 1000 / max(1, last.time - first.time)}")
            else:
                parts.append(unknown)
        return " ".join(parts)

    def sample(self) -> None:
        """Takes the next sample; to be called every second."""
        totals = self._totals()
        self._samples.append(totals)
        if totals.time > self._minute_began + MINUTE_MS:
            self._minute_began = totals.time
            self.put_times.end_minute(totals.puts - self.put_in_company)
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
