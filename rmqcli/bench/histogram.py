"""Times in a histogram of high dynamic range: microseconds, three significant digits, up to an hour."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hdrh.histogram import HdrHistogram

HIGHEST = 3_600_000_000
DIGITS = 3
_STEPS = [0, *(lead * 10**power for power in range(11) for lead in (1, 2, 5))]
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


@dataclass(frozen=True, slots=True)
class Bucket:
    """The number of times from `begin` to `end`, both included, in microseconds."""

    begin: int
    end: int
    count: int


class Histogram:
    """Times of operations; one longer than an hour counts as an hour."""

    def __init__(self) -> None:
        self._times = HdrHistogram(1, HIGHEST, DIGITS)

    def record(self, seconds: float) -> None:
        """Add one time."""
        self._times.record_value(min(max(round(seconds * 1e6), 0), HIGHEST))

    @property
    def count(self) -> int:
        """The number of times."""
        return int(self._times.total_count)

    def percentile(self, percent: float) -> int | None:
        """Return the microseconds that `percent` of the times did not exceed; None without any times."""
        value = min(self._times.get_value_at_percentile(percent), self._times.max_value)
        return int(value) if self.count else None

    def summary(self) -> dict[str, Any]:
        """Return `min`, `mean`, the percentiles and `max` in microseconds; None without any times."""
        ends = (self._times.min_value, round(self._times.get_mean_value(), 1), self._times.max_value)
        low, mean, high = ends if self.count else (None, None, None)
        percentiles = {name: self.percentile(percent) for name, percent in PERCENTILES.items()}
        return {"min": low, "mean": mean, **percentiles, "max": high}

    def buckets(self) -> list[Bucket]:
        """Return all buckets that are not empty, in order."""
        recorded = self._times.get_recorded_iterator() if self.count else ()
        return [
            Bucket(
                self._times.get_lowest_equivalent_value(one.value_iterated_to),
                one.value_iterated_to,
                one.count_at_value_iterated_to,
            )
            for one in recorded
        ]


def coarse(buckets: Iterable[Bucket]) -> list[Bucket]:
    """Return the counts between the steps 0, 1, 2, 5, 10, 20, 50, … microseconds, from the first to the last
    that is not zero; the ends are excluded. A bucket that crosses a step is counted where it begins.
    """
    counts: Counter[int] = Counter()
    for bucket in buckets:
        counts[bisect_right(_STEPS, bucket.begin) - 1] += bucket.count
    places = range(min(counts), max(counts) + 1) if counts else range(0)
    return [Bucket(_STEPS[place], _STEPS[place + 1], counts[place]) for place in places]


SAME = ("bench", "rate", "size", "inFlight")
"""Members that must be equal in both documents."""
_EXPECTED = "expected a document of rmq bench --json"

Read = Callable[[Mapping[str, Any]], float | None]


class NotComparable(Exception):
    """A document of another benchmark or another load; the message names the difference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure, old and new; None where no operation succeeded. `change` is in percent of the old one."""

    name: str
    old: float | None
    new: float | None
    worse: bool

    @property
    def change(self) -> float | None:
        if self.old is None or self.new is None or not self.old:
            return None
        return (self.new - self.old) / self.old * 100


def check_load(old: object, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the older document. Raise NotComparable if it has another load than `new`."""
    if not isinstance(old, dict):
        raise NotComparable(_EXPECTED)
    for name in SAME:
        if old.get(name) != new[name]:
            raise NotComparable(f"{name} is {old.get(name)} there and {new[name]} here")
    try:
        # Reads every figure, so that a malformed document is reported before the run.
        list(_differences(old, old, 0))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise NotComparable(_EXPECTED) from None
    return old


def compare(old: Mapping[str, Any], new: Mapping[str, Any], tolerance: float) -> list[Difference]:
    """Compare the operations per second, the failed ones, and percentiles of the latency.

    A figure is worse if it is worse by more than `tolerance` percent of the old one. The maximum and the mean
    are not judged, because a single operation can determine them.
    """
    return list(_differences(old, new, tolerance))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], tolerance: float) -> Iterator[Difference]:
    for name, (read, sign) in _FIGURES.items():
        before, now = read(old), read(new)
        yield Difference(name, before, now, _is_worse(before, now, sign, tolerance))


def _is_worse(old: float | None, new: float | None, sign: int, tolerance: float) -> bool:
    if new is None or old is None:
        return new is None and old is not None
    return sign * (new - old) > abs(old) * tolerance / 100


def _missed(document: Mapping[str, Any]) -> float:
    return float(sum(document["failed"].values()) + document["notStarted"])


def _percentile(name: str) -> Read:
    def read(document: Mapping[str, Any]) -> float | None:
        value = document["latency"][name]
        return None if value is None else float(value)

    return read


_FIGURES: Mapping[str, tuple[Read, int]] = {
    "doneRate": (lambda document: float(document["doneRate"]), -1),
    "missed": (_missed, 1),
    **{name: (_percentile(name), 1) for name in PERCENTILES},
}
"""The figures by name: how to read each, and 1 if more is worse, -1 if less is worse."""
