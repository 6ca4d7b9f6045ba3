"""Rates and totals of topics and their groups, from the statistics of brokers (mqadmin `statsAll`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from codec.bodies.heartbeat import MessageModel
from codec.bodies.stats import BrokerStatsData
from rmqcli.client import Admin, ClientError, ConsumerOffline, NoRoute
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import lag_of

Failures = dict[str, ClientError]


class TopicRate(NamedTuple):
    """A topic and one of its groups, None without any.

    Rates are messages per second of the last minute, totals those of the last 24 h, as long as the brokers
    run. `lag` is in messages, None if it is unknown. `brokers` have queues of the topic.
    """

    topic: str
    group: str | None
    lag: int | None
    in_tps: float
    out_tps: float | None
    in_total: int
    out_total: int | None
    brokers: frozenset[str] = frozenset()

    @property
    def is_active(self) -> bool:
        return bool(self.in_tps or self.out_tps)


async def topic_rates(admin: Admin, topics: Sequence[str], failures: Failures) -> list[TopicRate]:
    """Return the busiest first. Brokers that do not answer are in `failures`; deleted topics are left out."""
    found, lost = await gather(topics, lambda topic: _rates_of(admin, topic, failures))
    for error in lost.values():
        if not isinstance(error, NoRoute):
            raise error
    rows = [rate for rates in found.values() for rate in rates]
    return sorted(rows, key=lambda row: (-row.in_tps - (row.out_tps or 0), -(row.lag or 0), row.topic))


async def _rates_of(admin: Admin, topic: str, failures: Failures) -> list[TopicRate]:
    brokers = await admin.topics.masters(topic)
    puts = await admin.brokers.statistics(brokers, "TOPIC_PUT_NUMS", topic, failures=failures)
    came, names = (rate_of(puts), total_of(puts)), frozenset(brokers)
    rows = []
    for group in await _groups(admin, topic, failures):
        key = f"{topic}@{group}"
        gets = await admin.brokers.statistics(brokers, "GROUP_GET_NUMS", key, failures=failures)
        lag = await _lag(admin, topic, group, brokers, failures)
        rows.append(TopicRate(topic, group, lag, came[0], rate_of(gets), came[1], total_of(gets), names))
    return rows or [TopicRate(topic, None, None, came[0], None, came[1], None, names)]


async def _groups(admin: Admin, topic: str, failures: Failures) -> list[str]:
    try:
        return await admin.topics.groups(topic, failures=failures)
    except ClientError:
        if failures:  # they say why
            return []
        raise


async def _lag(
    admin: Admin, topic: str, group: str, brokers: Mapping[str, str], failures: Failures
) -> int | None:
    try:
        stats = await admin.offsets.stats(group, topic, masters=brokers, failures=failures)
        return lag_of(stats, broadcasting=await _broadcasting(admin, group))[0]
    except ClientError:
        if failures:
            return None
        raise


async def _broadcasting(admin: Admin, group: str) -> bool:
    """Return whether running clients keep the offsets of the group, so that those of brokers say nothing."""
    try:
        found = await admin.clients.consumers(group, failures={})
    except ConsumerOffline:
        return False
    return found.message_model == MessageModel.BROADCASTING


def rate_of(items: Iterable[BrokerStatsData]) -> float:
    """Return the rate of the last minute, of all brokers."""
    rates = (item.stats_minute.tps for item in items if item.stats_minute is not None)
    return round(sum(rates, 0.0), 2)


def total_of(items: Iterable[BrokerStatsData]) -> int:
    """Return the sum of the last 24 h, of all brokers: a young broker has only that of an hour or minute."""
    spans = [[item.stats_day, item.stats_hour, item.stats_minute] for item in items]
    return sum(next((one.sum for one in span if one is not None and one.sum), 0) for span in spans)
