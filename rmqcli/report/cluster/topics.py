"""Topics of a cluster: their messages, rates, and messages by hour."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from rmqcli.client import Admin, ClientError
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import stored
from rmqcli.codec.bodies.stats import TopicOffset
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.plans.topics import rate_of, total_of

HOURS = 24
HOUR_MS = 3_600_000
MAX_QUESTIONS = 4000
"""The maximum number of offsets queried by time; each costs a broker a binary search in a queue."""
Failures = dict[str, ClientError]
Queues = Mapping[MessageQueue, TopicOffset]


class TopicReading(NamedTuple):
    """`messages` counts those that can be read, `last_stored` is in epoch ms. The rate is over the last
    minute, `day` the number of messages of the last 24 h as brokers count them; None if they were not
    queried.
    """

    name: str
    queues: Queues
    rate: float | None = None
    day: int | None = None

    @property
    def messages(self) -> int:
        return stored(self.queues)

    @property
    def last_stored(self) -> int:
        return max((one.last_update_timestamp for one in self.queues.values()), default=0)


class DeadLetters(NamedTuple):
    """The dead letters of a group; `last_stored` is in epoch ms."""

    group: str
    messages: int
    last_stored: int


class Hours(NamedTuple):
    """Messages by hour since `begin` (epoch ms), by topic."""

    begin: int
    counts: Mapping[str, Sequence[int]]


async def read_topics(
    admin: Admin,
    names: Sequence[str],
    failures: Failures,
    *,
    with_rates: bool = True,
    brokers: Container[str] | None = None,
) -> list[TopicReading]:
    """Read the ends of all queues, or of those on some brokers; add the errors of brokers that do not respond
    to `failures`.

    Rates are read only for topics that got a message in the last day.
    """
    since = admin.instance.now_ms() - HOURS * HOUR_MS

    def wanted(broker: str) -> bool:
        return brokers is None or broker in brokers

    async def read(name: str) -> TopicReading:
        queues = await admin.topics.stats(name, failures=failures)
        mine = {queue: ends for queue, ends in queues.items() if wanted(queue.broker_name)}
        found = TopicReading(name, mine)
        if not with_rates or found.last_stored < since:
            return found
        masters = await admin.topics.masters(name)
        asked = {broker: address for broker, address in masters.items() if wanted(broker)}
        puts = await admin.brokers.statistics(asked, "TOPIC_PUT_NUMS", name, failures=failures)
        return found._replace(rate=rate_of(puts), day=total_of(puts))

    answers, _ = await gather(names, read)
    return [one for one in answers.values() if one.queues or brokers is None]


async def hours_of(admin: Admin, topics: Sequence[TopicReading]) -> Hours:
    """Count the messages of the busiest topics in each hour of the last day, by querying queue offsets by
    time.
    """
    now = admin.instance.now_ms()
    begin = (now // HOUR_MS - HOURS + 1) * HOUR_MS
    bounds = [begin + number * HOUR_MS for number in range(HOURS)]
    chosen = _busiest(topics, begin)
    asked = [
        (queue, bound)
        for topic in chosen
        for queue, ends in topic.queues.items()
        for bound in bounds
        if bound <= ends.last_update_timestamp
    ]
    offsets, _ = await gather(asked, lambda one: admin.offsets.search_offset(*one))
    return Hours(begin, {topic.name: _counts(topic.queues, bounds, offsets) for topic in chosen})


def _busiest(topics: Sequence[TopicReading], begin: int) -> list[TopicReading]:
    """Return the topics with the most messages of the last day, as many as MAX_QUESTIONS allows."""
    active = [one for one in topics if one.last_stored >= begin]
    active.sort(key=lambda one: (-(one.day or 0), -one.messages, one.name))
    chosen, left = [], MAX_QUESTIONS
    for one in active:
        left -= len(one.queues) * HOURS
        if left < 0:
            break
        chosen.append(one)
    return chosen


def _counts(
    queues: Queues, bounds: Sequence[int], offsets: Mapping[tuple[MessageQueue, int], int]
) -> list[int]:
    """Return the messages between each two bounds, and after the last one.

    A bound after the newest message means the end: for it, brokers of 4.9 return the last message.
    """
    counts = [0] * len(bounds)
    for queue, ends in queues.items():
        at = [offsets.get((queue, bound), ends.max_offset) for bound in bounds] + [ends.max_offset]
        at[0] = max(at[0], ends.min_offset)
        for number in range(len(bounds)):
            counts[number] += max(0, at[number + 1] - at[number])
    return counts
