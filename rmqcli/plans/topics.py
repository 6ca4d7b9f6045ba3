"""Many topics at once: those of applications, their totals, their rates, and the current producers of one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqcli.client import Admin, ClientError, ConsumerOffline, NoRoute
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import lag_of, stored
from rmqcli.codec.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic, reply_topic

if TYPE_CHECKING:
    from rmqcli.codec.bodies.config import TopicConfig
    from rmqcli.codec.bodies.route import ClusterInfo
    from rmqcli.codec.bodies.stats import BrokerStatsData, TopicOffset
    from rmqcli.codec.message_queue import MessageQueue

Failures = dict[str, ClientError]


def own_topics(info: ClusterInfo) -> set[str]:
    """Return the topics that every broker creates, named after itself and its cluster."""
    clusters = set(info.cluster_addr_table)
    return clusters | {reply_topic(name) for name in clusters} | set(info.broker_addr_table)


def application_topics(names: Iterable[str], info: ClusterInfo) -> list[str]:
    """Return the names without system, retry and dead-letter topics, in their order."""
    hidden = own_topics(info)
    return [
        name
        for name in names
        if name not in hidden
        and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))
        and not is_system_topic(name)
    ]


class TopicTotal(NamedTuple):
    """The queues and messages of a topic on all brokers; `last` is the store time of its last message, 0
    without one. `timers` are waiting timer messages, None if no broker reports them.
    """

    topic: str
    brokers: int
    queues: int
    messages: int
    last: int
    timers: int | None = None


async def listed_topics(admin: Admin, *, everything: bool) -> list[str]:
    """Return the topics of applications, or all, sorted."""
    found = await admin.topics.names()
    return found if everything else application_topics(found, await admin.brokers.cluster_info())


async def topic_settings(
    admin: Admin, topics: Collection[str], failures: Failures
) -> list[tuple[str, TopicConfig]]:
    """Return broker and settings of each topic on each broker, by topic and broker."""
    tables = await admin.topics.all_settings(failures=failures)
    wanted = set(topics)
    found = [(name, config) for name, table in tables.items() for config in table.values()]
    return sorted(
        ((name, config) for name, config in found if config.topic_name in wanted),
        key=lambda pair: (pair[1].topic_name, pair[0]),
    )


async def topic_totals(admin: Admin, topics: Sequence[str], failures: Failures) -> list[TopicTotal]:
    """Return totals in the order of `topics`; topics that are deleted meanwhile are omitted."""
    found, lost = await gather(topics, lambda topic: _total(admin, topic, failures))
    for error in lost.values():
        if not isinstance(error, NoRoute) and not failures:
            raise error
    waiting = await timers_of(admin, failures)
    return [one._replace(timers=waiting(one.topic)) for one in found.values()]


async def timers_of(
    admin: Admin, failures: Failures, seats: Mapping[str, str] | None = None
) -> Callable[[str], int | None]:
    """Return a function that returns the number of waiting timer messages of a topic on the masters, or on
    those in `seats`; None if no broker reports it.
    """
    found: dict[str, dict[str, int]] = {}
    with suppress(ClientError):  # no broker responds: `failures` has the errors
        found = await admin.topics.timers(seats, failures=failures)
    return lambda topic: sum(counts.get(topic, 0) for counts in found.values()) if found else None


async def _total(admin: Admin, topic: str, failures: Failures) -> TopicTotal:
    stats = await admin.topics.stats(topic, failures=failures)
    return TopicTotal(
        topic,
        len({queue.broker_name for queue in stats}),
        len(stats),
        stored(stats),
        max((place.last_update_timestamp for place in stats.values()), default=0),
    )


class TopicRate(NamedTuple):
    """A topic and one of its groups, None if it has none.

    Rates are messages per second over the last minute, totals cover the last 24 h, but only since the start
    of the brokers. `lag` is in messages, None if it is unknown. `brokers` have queues of the topic.
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
    """Return the rates, busiest first. Add the errors of brokers that do not respond to `failures`; omit
    deleted topics.
    """
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
        if failures:  # `failures` has the reasons
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
    """Return True if running clients keep the group's offsets, which makes those of brokers meaningless."""
    from rmqcli.codec.bodies.heartbeat import MessageModel

    try:
        found = await admin.clients.consumers(group, failures={})
    except ConsumerOffline:
        return False
    return found.message_model == MessageModel.BROADCASTING


def rate_of(items: Iterable[BrokerStatsData]) -> float:
    """Return the rate over the last minute, summed over all brokers."""
    rates = (item.stats_minute.tps for item in items if item.stats_minute is not None)
    return round(sum(rates, 0.0), 2)


def total_of(items: Iterable[BrokerStatsData]) -> int:
    """Return the total of the last 24 h over all brokers; a broker that started recently has only that of an
    hour or a minute.
    """
    spans = [[item.stats_day, item.stats_hour, item.stats_minute] for item in items]
    return sum(next((one.sum for one in span if one is not None and one.sum), 0) for span in spans)


ACTIVE_MS: Final = 600_000
"""Milliseconds since the last message of a topic after which it counts as not written to."""
LAST_MESSAGES: Final = 32
"""Messages of each queue whose senders are looked up."""
MOST_QUEUES: Final = 64
"""The maximum number of queues that are read; those written last are chosen."""


class Writing(NamedTuple):
    """`ago` seconds have passed since the last message; `by` are producers, or addresses of producers that
    have disconnected.
    """

    ago: float
    by: tuple[str, ...]

    def __str__(self) -> str:
        from rmqcli.render.text import duration

        by = f", by {', '.join(self.by)}" if self.by else ""
        return f"last {duration(self.ago)} ago{by}"


async def writing(admin: Admin, stats: Mapping[MessageQueue, TopicOffset]) -> Writing | None:
    """Return the producers of the last messages of a topic, as far as brokers respond; None if the messages
    are old.
    """
    now = admin.instance.now_ms()
    recent = [one for one, ends in stats.items() if now - ends.last_update_timestamp < ACTIVE_MS]
    recent.sort(key=lambda one: -stats[one].last_update_timestamp)
    if not recent:
        return None
    last = stats[recent[0]].last_update_timestamp
    hosts, _ = await gather(recent[:MOST_QUEUES], lambda one: _senders(admin, one, stats[one], now))
    found = {host for senders in hosts.values() for host in senders}
    known: dict[str, str] = {}
    with suppress(ClientError):  # older brokers do not list producers
        producers = await admin.clients.producers(failures={})
        known = {one.address: f"{one.client_id} ({one.group})" for one in producers}
    return Writing(max(0, now - last) / 1000, tuple(sorted({known.get(host, host) for host in found})))


async def _senders(admin: Admin, queue: MessageQueue, ends: TopicOffset, now: int) -> set[str]:
    from rmqcli.client import PullConsumer, PullStatus  # not imported for listing topics

    consumer = PullConsumer(instance=admin.instance)
    begin = max(ends.min_offset, ends.max_offset - LAST_MESSAGES)
    result = await consumer.pull(queue, begin, LAST_MESSAGES)
    if result.status is not PullStatus.FOUND:
        return set()
    return {one.born_host for one in result.messages if now - one.store_timestamp < ACTIVE_MS}
