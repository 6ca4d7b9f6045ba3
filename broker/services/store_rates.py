"""Totals and rates of the whole broker for GET_BROKER_RUNTIME_INFO (Java `StoreStatsService`, `BrokerStats`).

Totals are sampled every second and 601 samples are kept, for the rates of the last 10 seconds, minute and 10
minutes. The durations of puts are those of the last complete minute.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable
from datetime import date, datetime
from itertools import accumulate, repeat
from typing import NamedTuple

import trio

KEPT = 601
SPANS = (10, 60, 600)
MINUTE_MS = 60_000


LOWER_ENDS = (0, 1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
"""Milliseconds at which the classes of putMessageDistributeTime begin."""
CLASSES = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]"),
    *("[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)
STEPS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9))
UPPER_ENDS = tuple(accumulate(width for step, times in STEPS for width in repeat(step, times)))
"""Milliseconds at which the buckets of the percentiles end: 1, 2, … 20, 22, … 10,000; one more holds
longer times."""
LONGEST = (1 << 63) - 1
"""The end of the last bucket, Java's Long.MAX_VALUE."""
NOTED_MS = UPPER_ENDS[-1] + 1
"""Longer times count as this one, which bounds the number of distinct times."""


class PutTimes:
    """Durations of puts in the current minute and in the one before, which is reported.

    Java puts every duration into a bucket. Here only those of 1 ms and more are counted, and the rest is
    derived from the number of puts, so that a fast put costs nothing. A batch is one put. Durations are whole
    milliseconds, rounded down.
    """

    def __init__(self) -> None:
        self.longest_ms = 0
        self._slow: Counter[int] = Counter()
        self._puts_before = 0
        self._last: Counter[int] = Counter()

    def slow(self, took_ms: int) -> None:
        """Count a put of `took_ms`, 1 or more."""
        self.longest_ms = max(self.longest_ms, took_ms)
        self._slow[min(took_ms, NOTED_MS)] += 1

    def end_minute(self, puts: int) -> None:
        """Start the next minute. `puts` is the number of all puts since the start of the broker."""
        fast = max(0, puts - self._puts_before - self._slow.total())
        self._last = self._slow + Counter({0: fast})
        self._slow = Counter()
        self._puts_before = puts

    def distribution(self) -> str:
        """Return the number of puts by class, as Java prints it; 0 in the first minute, where Java has
        "null".
        """
        counts: Counter[int] = Counter()
        for took, count in self._last.items():
            counts[bisect_right(LOWER_ENDS, took) - 1] += count
        return "".join(f"{name}:{counts[at]} " for at, name in enumerate(CLASSES))

    def percentile(self, part: float) -> float:
        """Return the milliseconds that a part (0 to 1) of the puts did not exceed; 0 without puts."""
        counts: Counter[int] = Counter()
        for took, count in self._last.items():
            counts[bisect_left(UPPER_ENDS, max(took, 1))] += count
        wanted, passed, low = int(counts.total() * part), 0, 0
        for at, high in enumerate((*UPPER_ENDS, LONGEST)):
            if wanted <= passed + counts[at]:
                return low + (high - low) * (wanted - passed) / max(1, counts[at])
            passed, low = passed + counts[at], high
        return float(low)


class Totals(NamedTuple):
    """The counters at `time` (ms)."""

    time: int
    puts: int
    found: int
    missed: int
    transferred: int


class StoreRates:
    """Counters that handlers increment, and their rates."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.put_messages = 0
        self.put_in_company = 0
        """Messages of batches except the first of each: a batch is one put."""
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
        """Count a put of more than 1 ms."""
        self.put_times.slow(int(seconds * 1000))

    def rates(self, *columns: str, unknown: str = "") -> str:
        """Rates of a sum of totals over 10 s, 1 min and 10 min; `unknown` where samples are missing."""
        samples = self._samples
        last = samples[-1]

        def rate(first: Totals) -> float:
            counted: int = sum(getattr(last, name) - getattr(first, name) for name in columns)
            return counted * 1000 / max(1, last.time - first.time)

        return " ".join(f"{rate(samples[-n - 1])}" if len(samples) > n else unknown for n in SPANS)

    def sample(self) -> None:
        """Take the next sample. Call this every second."""
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
        """Sample until cancelled."""
        while True:
            await trio.sleep(1)
            self.sample()

    def _totals(self) -> Totals:
        return Totals(self._now_ms(), self.put_messages, self.found, self.missed, self.transferred)

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now_ms() / 1000).date()  # the local day, as in Java
