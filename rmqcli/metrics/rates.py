"""Rates and offsets of topics and groups as metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from rmqcli.client import Admin, ClientError, GroupSummary
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import BrokerLag
from rmqcli.codec.bodies.stats import BrokerStatsData, TopicOffset
from rmqcli.codec.message import DLQ_PREFIX, RETRY_PREFIX
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.metrics.families import (
    ACCUMULATION,
    CONSUMER_OFFSET,
    CONSUMER_SIZE,
    CONSUMER_TPS,
    DLQ_DIFF,
    DLQ_OFFSET,
    GROUP_COUNT,
    GROUP_DIFF,
    IN_FLIGHT,
    LATENCY,
    PRODUCER_OFFSET,
    PRODUCER_SIZE,
    PRODUCER_TPS,
    RETRY_DIFF,
    RETRY_OFFSET,
    SEND_BACK,
    Family,
    Sample,
)

_OF_TOPICS: Mapping[str, Family] = {"TOPIC_PUT_NUMS": PRODUCER_TPS, "TOPIC_PUT_SIZE": PRODUCER_SIZE}
_OF_GROUPS: Mapping[str, Family] = {
    "GROUP_GET_NUMS": CONSUMER_TPS,
    "GROUP_GET_SIZE": CONSUMER_SIZE,
    "SNDBCK_PUT_NUMS": SEND_BACK,
}

_DIFFS: Mapping[str, Family] = {RETRY_PREFIX: RETRY_DIFF, DLQ_PREFIX: DLQ_DIFF}


class _Question(NamedTuple):
    """A statistic of a broker."""

    family: Family
    broker: str
    name: str
    target: tuple[str, ...]


async def rate_samples(
    admin: Admin,
    clusters: Mapping[str, str],
    masters: Mapping[str, str],
    topics: Mapping[str, Collection[str]],
    groups: Collection[tuple[str, str, str]],
) -> list[Sample]:
    """Return the rates of topics on the brokers that have them, and of (broker, topic, group).

    Rates that a broker does not report are omitted: it knows only those of topics used since its start.
    """
    questions = [*_of_topics(topics), *_of_groups(groups)]
    answers, _ = await gather(
        [one for one in questions if one.broker in masters], lambda one: _ask(admin, masters, one)
    )
    return [
        Sample(one.family, (clusters.get(one.broker, ""), one.broker, *one.target), rate)
        for one, rate in answers.items()
        if rate is not None
    ]


def _of_topics(topics: Mapping[str, Collection[str]]) -> Iterator[_Question]:
    for topic, brokers in topics.items():
        for broker in brokers:
            for name, family in _OF_TOPICS.items():
                yield _Question(family, broker, name, (topic,))


def _of_groups(groups: Collection[tuple[str, str, str]]) -> Iterator[_Question]:
    for broker, topic, group in groups:
        for name, family in _OF_GROUPS.items():
            yield _Question(family, broker, name, (topic, group))


async def _ask(admin: Admin, masters: Mapping[str, str], one: _Question) -> float | None:
    failures: dict[str, ClientError] = {}
    seats = {one.broker: masters[one.broker]}
    found = await admin.brokers.statistics(seats, one.name, "@".join(one.target), failures=failures)
    return _rate(found[0]) if found else None


def _rate(found: BrokerStatsData) -> float | None:
    return None if found.stats_minute is None else found.stats_minute.tps


def topic_samples(
    clusters: Mapping[str, str], topic: str, places: Mapping[MessageQueue, TopicOffset]
) -> Iterator[Sample]:
    """Yield the offsets of a topic on each broker. `clusters` are by broker name."""
    sums: dict[str, int] = defaultdict(int)
    for queue, place in places.items():
        sums[queue.broker_name] += place.max_offset
    family, name = PRODUCER_OFFSET, topic
    if topic.startswith(RETRY_PREFIX):
        family = RETRY_OFFSET
    elif topic.startswith(DLQ_PREFIX):
        family, name = DLQ_OFFSET, topic.removeprefix(DLQ_PREFIX)
    for broker, total in sorted(sums.items()):
        yield Sample(family, (clusters.get(broker, ""), broker, name), total)


class _Total(NamedTuple):
    """Totals over the queues of a group on a broker; `oldest` is the earliest store time of a last consumed
    message, 0 if no message waits. `in_flight` is None for brokers of 4.9, which do not report it.
    """

    consumed: int = 0
    lag: int = 0
    oldest: int = 0
    in_flight: int | None = None

    def plus(self, one: BrokerLag) -> _Total:
        offsets, oldest = one.offsets, self.oldest
        if one.lag and offsets.last_timestamp > 0:
            oldest = min(oldest or offsets.last_timestamp, offsets.last_timestamp)
        in_flight = self.in_flight
        if offsets.pull_offset is not None:
            in_flight = (in_flight or 0) + max(0, offsets.pull_offset - max(0, offsets.consumer_offset))
        return _Total(
            self.consumed + max(0, offsets.consumer_offset),
            self.lag + (one.lag or 0),
            oldest,
            in_flight,
        )


def group_samples(
    clusters: Mapping[str, str],
    lags: Iterable[BrokerLag],
    groups: Mapping[str, GroupSummary],
    now_ms: int,
) -> Iterator[Sample]:
    """Yield the offsets and lag of every group on each broker, and over all brokers."""
    totals: dict[tuple[str, str, str], _Total] = defaultdict(_Total)
    for one in lags:
        key = one.queue.broker_name, one.queue.topic, one.group
        totals[key] = totals[key].plus(one)
    diffs: dict[tuple[str, str], int] = defaultdict(int)
    for (broker, topic, group), total in sorted(totals.items()):
        labels = (clusters.get(broker, ""), broker, topic, group)
        diffs[group, topic] += total.lag
        yield Sample(CONSUMER_OFFSET, labels, total.consumed)
        yield Sample(ACCUMULATION, labels, total.lag)
        if total.in_flight is not None:
            yield Sample(IN_FLIGHT, labels, total.in_flight)
        yield Sample(LATENCY, labels, max(0, now_ms - total.oldest) if total.oldest else 0)
    for (group, topic), lag in diffs.items():
        summary = groups.get(group)
        model = summary.message_model if summary else ""
        family = next((one for prefix, one in _DIFFS.items() if topic.startswith(prefix)), GROUP_DIFF)
        yield Sample(family, (group, topic, str(summary.clients if summary else 0), model), lag)
    for name, summary in groups.items():
        yield Sample(GROUP_COUNT, (name,), summary.clients)
