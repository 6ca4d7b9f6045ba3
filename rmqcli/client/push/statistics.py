"""Counts and times of pulls and consumption per topic, over the last minute and hour.

Totals are sampled every 10 s (seven samples span a minute) and every 10 min (seven span an hour). A rate is
the difference between the newest and the oldest sample divided by their distance (Java
`ConsumerStatsManager`, `StatsItem`). Sampling begins with the first addition, after a sample of zero one
interval earlier. Times are milliseconds.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from rmqcli.client.metrics import ConsumerMetrics
from rmqcli.codec.bodies.running import ConsumeStatus

SAMPLE_INTERVAL = 10.0
SAMPLES = 7
SAMPLES_AN_HOUR = 60  # 10 s samples in the 10 min between two samples of the hour


class _Sample(NamedTuple):
    at: float
    value: float
    times: int


_NEVER = _Sample(0.0, 0.0, 0)


class _Item:
    """A running total: `value` summed over `times` additions."""

    __slots__ = ("_hour", "_minute", "times", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.times = 0
        self._minute: deque[_Sample] = deque(maxlen=SAMPLES)
        self._hour: deque[_Sample] = deque(maxlen=SAMPLES)

    def add(self, value: float, times: int = 1) -> None:
        self.value += value
        self.times += times

    def sample(self, at: float, *, hour: bool) -> None:
        if not self.times:
            return
        self._append(self._minute, at, SAMPLE_INTERVAL)
        if hour:
            self._append(self._hour, at, SAMPLE_INTERVAL * SAMPLES_AN_HOUR)

    def _append(self, samples: deque[_Sample], at: float, interval: float) -> None:
        if not samples:
            samples.append(_Sample(at - interval, 0.0, 0))
        samples.append(_Sample(at, self.value, self.times))

    def tps(self) -> float:
        return _rate(self._minute, "at")

    def average(self) -> float:
        return _rate(self._minute, "times")

    def latest_average(self) -> float:
        """Return the average per addition over the minute, or over the hour if that is 0."""
        return self.average() or _rate(self._hour, "times")

    def sum_of_hour(self) -> int:
        first, last = _ends(self._hour)
        return round(last.value - first.value)


def _ends(samples: deque[_Sample]) -> tuple[_Sample, _Sample]:
    return (samples[0], samples[-1]) if samples else (_NEVER, _NEVER)


def _rate(samples: deque[_Sample], unit: str) -> float:
    """Return the increase of the value per unit: `at` (time) or `times`."""
    first, last = _ends(samples)
    count: float = getattr(last, unit) - getattr(first, unit)
    return (last.value - first.value) / count if count > 0 else 0.0


class TopicStatistics:
    """The totals of one topic."""

    __slots__ = ("consume_time", "failed", "ok", "pull_time", "pulled")

    def __init__(self) -> None:
        self.pull_time = _Item()
        self.pulled = _Item()
        self.consume_time = _Item()
        self.ok = _Item()
        self.failed = _Item()

    def sample(self, at: float, *, hour: bool) -> None:
        for name in self.__slots__:
            getattr(self, name).sample(at, hour=hour)

    def status(self) -> ConsumeStatus:
        return ConsumeStatus(
            pull_rt=self.pull_time.average(),
            pull_tps=self.pulled.tps(),
            consume_rt=self.consume_time.latest_average(),
            consume_ok_tps=self.ok.tps(),
            consume_failed_tps=self.failed.tps(),
            consume_failed_msgs=self.failed.sum_of_hour(),
        )


class Statistics(dict[str, TopicStatistics]):
    """Topic → totals, created on first access."""

    _count = 0

    def metrics(self, waiting: int, lag: int, reconnects: int) -> ConsumerMetrics:
        topics = list(self.values())  # at once, because other threads may ask
        return ConsumerMetrics(
            calls=sum(topic.consume_time.times for topic in topics),
            seconds=sum(topic.consume_time.value for topic in topics) / 1000,
            consumed=round(sum(topic.ok.value for topic in topics)),
            failed=round(sum(topic.failed.value for topic in topics)),
            waiting=waiting,
            lag=lag,
            reconnects=reconnects,
        )

    def __missing__(self, topic: str) -> TopicStatistics:
        fresh = self[topic] = TopicStatistics()
        return fresh

    def sample(self, at: float) -> None:
        """Take a sample; called every SAMPLE_INTERVAL seconds. `at` is in seconds on any clock."""
        hour = self._count % SAMPLES_AN_HOUR == 0
        self._count += 1
        for topic in self.values():
            topic.sample(at, hour=hour)
