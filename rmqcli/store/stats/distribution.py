"""Distribution of records over sizes, time and keys, in bounded memory.

Rates are counted in time intervals, whose length doubles when there are too many of them. If there are more
than MAX_KEYS keys, the rare ones are dropped, so counts of rare keys can be too low. Keys of traces are not
counted, because they are message ids.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import SystemTopic

MAX_STEPS = 60
MAX_KEYS = 100_000


class Rate:
    """Counts per time interval; `step` is the length of an interval in ms."""

    def __init__(self) -> None:
        self.step = 1000
        self._steps: Counter[int] = Counter()

    def add(self, time: int, count: int = 1) -> None:
        self._steps[time // self.step] += count
        while max(self._steps) - min(self._steps) >= MAX_STEPS:
            self._widen()

    def widen(self, step: int) -> None:
        """Make intervals at least `step` ms long; `step` is a power of two times the present length."""
        while self.step < step:
            self._widen()

    def _widen(self) -> None:
        self.step *= 2
        wider: Counter[int] = Counter()
        for number, count in self._steps.items():
            wider[number // 2] += count
        self._steps = wider

    def counts_from(self, begin: int, steps: int) -> list[int]:
        """Return the counts of `steps` intervals from a time (ms) at which one of them begins."""
        first = begin // self.step
        return [self._steps[number] for number in range(first, first + steps)]

    @property
    def begin(self) -> int:
        """The time (ms) at which the first interval begins; 0 if there is none."""
        return min(self._steps, default=0) * self.step

    @property
    def counts(self) -> list[int]:
        first, last = min(self._steps, default=0), max(self._steps, default=-1)
        return [self._steps[number] for number in range(first, last + 1)]


class Distribution:
    """Distribution of records: `sizes` by the next greater power of two (bytes), `rate` by store time."""

    def __init__(self) -> None:
        self.sizes: Counter[int] = Counter()
        self.keys: Counter[str] = Counter()
        self.rate = Rate()

    def add(self, message: MessageExt) -> None:
        self.sizes[1 << message.store_size.bit_length()] += 1
        self.rate.add(message.store_timestamp)
        if message.topic != SystemTopic.TRACE:
            self._add_keys(message.keys)

    def add_many(self, sizes: Counter[int], seconds: Counter[int], keys: Counter[str]) -> None:
        """Add counts by bit length of the size, by second of store time, and by key."""
        for bits, count in sizes.items():
            self.sizes[1 << bits] += count
        for second, count in seconds.items():
            self.rate.add(second * 1000, count)
        self._add_keys(keys)

    def frequent_keys(self, count: int) -> list[tuple[str, int]]:
        """Return at most `count` keys, those of the most records, leaving out keys of a single record."""
        return [(key, records) for key, records in self.keys.most_common(count) if records > 1]

    def _add_keys(self, keys: Iterable[str]) -> None:
        self.keys.update(keys)
        if len(self.keys) > MAX_KEYS:
            self.keys = Counter(dict(self.keys.most_common(MAX_KEYS // 2)))


# The number of distinct values, counted exactly up to a limit and estimated above it, in bounded memory.
#
# The estimate is that of the k minimum values: of n distinct hashes, spread over [0, 2**64), the k-th smallest
# is near k / n of the range. Its standard error is 1 / sqrt(k - 2).

KEPT = 1024
"""The number of smallest hashes kept: 8 KiB, up to 16 KiB between two cuts; the standard error is 3 %."""
_RANGE = 1 << 64


def hash_of(value: bytes) -> int:
    """Return a 64-bit hash that is the same in every process."""
    return int.from_bytes(blake2b(value, digest_size=8).digest(), "big")


class Distinct:
    """Counts distinct values: exactly up to KEPT of them, then estimated from the smallest hashes."""

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._limit = _RANGE

    def add(self, hashes: Iterable[int]) -> None:
        limit = self._limit
        self._hashes.extend(one for one in hashes if one < limit)
        if len(self._hashes) >= 2 * KEPT:
            self._cut()

    def _cut(self) -> None:
        found = sorted(set(self._hashes))
        if len(found) > KEPT:
            del found[KEPT:]
            self._limit = found[-1] + 1
        self._hashes = array("Q", found)

    @property
    def is_exact(self) -> bool:
        return self._limit == _RANGE

    @property
    def count(self) -> int:
        self._cut()
        if self.is_exact:
            return len(self._hashes)
        # Hashes are spread evenly: the k-th smallest of n is about k / n of the whole range.
        return round((len(self._hashes) - 1) * _RANGE / self._hashes[-1])
