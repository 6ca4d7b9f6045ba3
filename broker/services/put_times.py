"""How long puts take, as GET_BROKER_RUNTIME_INFO tells it (Java class `StoreStatsService`): always of the last whole minute.

Java puts every time into a bucket. Here only a put of 1 ms and more is noted; the others are what is left of all puts of the
minute, so a fast put costs nothing. A batch is one put. Times are whole ms, cut down.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate, repeat

__all__ = ["PutTimes"]

LOWER_ENDS = (0, 1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
"""Where the classes of putMessageDistributeTime begin (ms)."""
CLASSES = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]"),
    *("[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)
STEPS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9))
UPPER_ENDS = tuple(accumulate(width for step, times in STEPS for width in repeat(step, times)))
"""Where the buckets of the percentiles end (ms): 1, 2, … 20, 22, … 10,000; longer times have one more."""
LONGEST = (1 << 63) - 1
"""The end of that one, Java's Long.MAX_VALUE."""
NOTED_MS = UPPER_ENDS[-1] + 1
"""A longer time is noted as this one, so that a minute knows a bounded number of times."""


class PutTimes:
    """The minute that is running, and the one before."""

    def __init__(self) -> None:
        self.longest_ms = 0
        self._slow: Counter[int] = Counter()
        self._puts_before = 0
        self._last: Counter[int] = Counter()

    def slow(self, took_ms: int) -> None:
        """A put that took `took_ms`, 1 or more."""
        self.longest_ms = max(self.longest_ms, took_ms)
        self._slow[min(took_ms, NOTED_MS)] += 1

    def end_minute(self, puts: int) -> None:
        """`puts` is the number of all puts since the start."""
        fast = max(0, puts - self._puts_before - self._slow.total())
        self._last = self._slow + Counter({0: fast})
        self._slow = Counter()
        self._puts_before = puts

    def distribution(self) -> str:
        """Puts by class, as Java prints them (it prints "null" during the first minute; here the classes are empty)."""
        counts: Counter[int] = Counter()
        for took, count in self._last.items():
            counts[bisect_right(LOWER_ENDS, took) - 1] += count
        return "".join(f"{name}:{counts[at]} " for at, name in enumerate(CLASSES))

    def percentile(self, part: float) -> float:
        """The time in ms that a part (0 to 1) of the puts did not exceed, interpolated inside its bucket; 0 without puts."""
        counts: Counter[int] = Counter()
        for took, count in self._last.items():
            counts[bisect_left(UPPER_ENDS, max(took, 1))] += count
        wanted, passed, low = int(counts.total() * part), 0, 0
        for at, high in enumerate((*UPPER_ENDS, LONGEST)):
            if wanted <= passed + counts[at]:
                return low + (high - low) * (wanted - passed) / max(1, counts[at])
            passed, low = passed + counts[at], high
        return float(low)
