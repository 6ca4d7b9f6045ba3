"""All samples of one scrape.

A broker that does not respond costs one timeout and has `rmq_up 0`; the scrape contains the data of the
others. The same applies to a broker that the name server has forgotten since an earlier scrape, because it
forgets a dead broker at once. If no broker is registered or known, there is one `rmq_up 0` without a name. A
name server that does not respond has `rmq_name_server_up 0`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from rmqcli.client import Admin, ClientError, ConnectionFailed, GroupSummary, NoBrokers
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import BrokerLag
from rmqcli.codec.bodies.route import ClusterInfo
from rmqcli.codec.message import DLQ_PREFIX, RETRY_PREFIX
from rmqcli.doctor.survey import LostBroker, Seen, places_of
from rmqcli.metrics.families import (
    NAME_SERVER_UP,
    PRODUCER_COUNT,
    SCRAPE_SECONDS,
    SERIES_DROPPED,
    TIMERS,
    UP,
    Sample,
)
from rmqcli.metrics.rates import group_samples, rate_samples, topic_samples
from rmqcli.metrics.runtime import runtime_samples, slave_samples

MAX_SERIES = 20_000


class _NotAsked(ConnectionFailed):
    """Represents the failure of a broker that is not chosen, and therefore not queried."""


@dataclass(slots=True)
class Survey:
    """The brokers of a scrape: clusters and addresses by name, and errors by label."""

    clusters: Mapping[str, str]
    seats: Mapping[str, str]
    failures: dict[str, ClientError] = field(default_factory=dict)

    @property
    def masters(self) -> dict[str, str]:
        """The masters that responded."""
        return {
            name: address
            for name, address in self.seats.items()
            if name in self.clusters and name not in self.failures
        }


async def collect(
    admin: Admin, *, brokers: Collection[str] = (), max_series: int = MAX_SERIES, seen: Seen | None = None
) -> list[Sample]:
    """Return the samples of a cluster, or of the named brokers; at most `max_series` besides those about the
    scrape itself. The most important ones come first and are kept. `seen` holds the brokers of earlier
    scrapes.
    """
    began = trio.current_time()
    samples: list[Sample] = []
    up = 0
    with suppress(ClientError):  # the scrape keeps what was read before
        info = await _registered(admin)
        up = 1
        now_ms = admin.instance.now_ms()
        lost = (seen or Seen()).missing(places_of(info), now_ms)
        samples += [
            Sample(UP, (one.cluster, one.address, one.label), 0) for one in lost if _is_of(one, brokers)
        ]
        if not (info.broker_addr_table or samples):
            samples.append(Sample(UP, ("", "", ""), 0))
        survey = Survey(_clusters(info), await _seats(admin, info, brokers))
        survey.failures |= {
            name: _NotAsked(name, "") for name in survey.clusters.keys() - survey.seats.keys()
        }
        await _read(admin, survey, samples, max_series)
    kept = samples[:max_series]
    return [
        Sample(NAME_SERVER_UP, (), up),
        *kept,
        Sample(SERIES_DROPPED, (), len(samples) - len(kept)),
        Sample(SCRAPE_SECONDS, (), trio.current_time() - began),
    ]


async def _registered(admin: Admin) -> ClusterInfo:
    """Return the registered brokers; if there are none, an empty result, because that is a valid state to
    report.
    """
    try:
        return await admin.brokers.cluster_info()
    except NoBrokers:
        return ClusterInfo()


def _is_of(one: LostBroker, brokers: Collection[str]) -> bool:
    return not brokers or one.name in brokers


async def _seats(admin: Admin, info: ClusterInfo, brokers: Collection[str]) -> dict[str, str]:
    """Return the chosen brokers that are registered; ignore unregistered names, because such a broker may
    come back.
    """
    known = [name for name in brokers if name in info.broker_addr_table]
    if (brokers and not known) or not info.broker_addr_table:
        return {}
    return await admin.brokers.seats(brokers=known)


async def _read(admin: Admin, survey: Survey, samples: list[Sample], max_series: int) -> None:
    """Add the samples, those of brokers first."""
    samples += await _broker_samples(admin, survey)
    if not survey.masters:
        return
    lags, groups = await _groups(admin, survey)
    samples += group_samples(survey.clusters, lags, groups, admin.instance.now_ms())
    samples += await _producers(admin, survey)
    topics = await _topics(admin, survey, samples)
    samples += await _timers(admin, survey)
    # Rates cost a request for each topic and group, and would be dropped beyond the limit.
    if len(samples) < max_series:
        consumed = {(one.broker, one.queue.topic, one.group) for one in lags}
        samples += await rate_samples(admin, survey.clusters, survey.masters, topics, sorted(consumed))


def _clusters(info: ClusterInfo) -> dict[str, str]:
    return {name: data.cluster or "" for name, data in info.broker_addr_table.items()}


async def _broker_samples(admin: Admin, survey: Survey) -> list[Sample]:
    with suppress(ClientError):  # all failed: they are in `failures`
        tables = await admin.brokers.runtime_infos(survey.seats, failures=survey.failures)
        behind = slave_samples(survey.clusters, survey.seats, tables)
        return [*_ups(survey), *behind, *_runtimes(survey, tables)]
    return _ups(survey)


def _ups(survey: Survey) -> list[Sample]:
    return [
        Sample(UP, (_cluster(survey, label), address, label), int(label not in survey.failures))
        for label, address in survey.seats.items()
    ]


def _runtimes(survey: Survey, tables: Mapping[str, Mapping[str, str]]) -> list[Sample]:
    return [
        sample
        for label, table in tables.items()
        for sample in runtime_samples(_cluster(survey, label), survey.seats[label], label, table)
    ]


def _cluster(survey: Survey, label: str) -> str:
    return survey.clusters.get(label.partition(":")[0], "")


async def _groups(admin: Admin, survey: Survey) -> tuple[list[BrokerLag], dict[str, GroupSummary]]:
    lags: list[BrokerLag] = []
    groups: dict[str, GroupSummary] = {}
    with suppress(ClientError):
        lags = await admin.brokers.lags(survey.masters, failures=survey.failures)
    with suppress(ClientError):
        groups = {one.name: one for one in await admin.groups.summaries(failures=survey.failures)}
    return lags, groups


async def _producers(admin: Admin, survey: Survey) -> list[Sample]:
    with suppress(ClientError):  # older brokers do not know the request
        found = await admin.clients.producers(brokers=list(survey.masters), failures=dict(survey.failures))
        counts = Counter((_cluster(survey, one.broker_name), one.broker_name, one.group) for one in found)
        return [Sample(PRODUCER_COUNT, labels, count) for labels, count in sorted(counts.items())]
    return []


async def _timers(admin: Admin, survey: Survey) -> list[Sample]:
    with suppress(ClientError):
        found = await admin.topics.timers(survey.masters, failures=survey.failures)
        return [
            Sample(TIMERS, (survey.clusters[name], name, topic), count)
            for name, counts in found.items()
            for topic, count in sorted(counts.items())
        ]
    return []


async def _topics(admin: Admin, survey: Survey, samples: list[Sample]) -> dict[str, Sequence[str]]:
    """Add the offsets of all topics. Return the brokers of the topics that applications send to."""
    names = await admin.topics.names()
    answers, _ = await gather(names, lambda name: admin.topics.stats(name, failures=survey.failures))
    for topic, places in answers.items():
        samples += topic_samples(survey.clusters, topic, places)
    return {
        topic: sorted({queue.broker_name for queue in places})
        for topic, places in answers.items()
        if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    }
