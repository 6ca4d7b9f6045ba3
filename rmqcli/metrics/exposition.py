"""Samples as values of prometheus_client, which writes the text formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from rmqcli.metrics.families import Family, Sample


def gauges(samples: Iterable[Sample]) -> Iterator[GaugeMetricFamily]:
    """Yield a gauge for each family, in the order of their first samples."""
    found: dict[Family, GaugeMetricFamily] = {}
    for family, labels, value in samples:
        gauge = found.get(family)
        if gauge is None:
            gauge = found[family] = GaugeMetricFamily(family.name, family.help, labels=family.labels)
        gauge.add_metric(labels, value)
    yield from found.values()


class ClusterCollector(Collector):
    """Collects samples at each scrape."""

    def __init__(self, read: Callable[[], Sequence[Sample]]) -> None:
        self._read = read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return gauges(self._read())

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing, so that a registry does not collect when it registers this collector."""
        return ()


def registry(read: Callable[[], Sequence[Sample]]) -> CollectorRegistry:
    """Return a registry of these samples alone."""
    found = CollectorRegistry()
    found.register(ClusterCollector(read))
    return found


def text(samples: Sequence[Sample]) -> bytes:
    """Return the samples in the text format of Prometheus."""
    return generate_latest(registry(lambda: samples))
