"""Rates of topics and groups as metrics, from the statistics of brokers (VIEW_BROKER_STATS_DATA, code 315)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from codec.bodies.stats import BrokerStatsData
from rmqcli.client import Admin, ClientError
from rmqcli.client.admin.area import gather
from rmqcli.metrics.families import (
    CONSUMER_SIZE,
    CONSUMER_TPS,
    PRODUCER_SIZE,
    PRODUCER_TPS,
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
    """Return the rates of topics on the brokers that hold them, and of (broker, topic, group).

    What a broker does not say is left out: it counts only what happened since its start.
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
