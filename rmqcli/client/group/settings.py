"""Settings of consumers.

Options, defaults and ranges are those of Java's `DefaultMQPushConsumer` and `DefaultLitePullConsumer`. Times
are in seconds and sizes in bytes unless a name says otherwise (Java's are milliseconds and MiB).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec

from rmqcli.client.errors import InvalidRequest, valid
from rmqcli.client.group.allocation import Allocate, averagely
from rmqcli.client.instance import ClientInstance
from rmqcli.codec.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumeFromWhere,
    MessageModel,
    SubscriptionData,
)
from rmqcli.codec.errors import SelectorError
from rmqcli.codec.message import check_topic, retry_topic
from rmqcli.codec.operations.clients import CHECK_CLIENT_CONFIG
from rmqcli.codec.selector import ALL, parse_tags, tag_subscription

MIB = 1024 * 1024
# What the default of maxReconsumeTimes, -1, means in Java for orderly consumers, and for others.
MAX_DELAY_ORDERLY = 2**31 - 1
DEFAULT_RECONSUME_TIMES = 16
PERSIST_INTERVAL = 5.0  # seconds; ClientConfig.persistConsumerOffsetInterval
REBALANCE_INTERVAL = 20.0  # seconds; rocketmq.client.rebalance.waitInterval

_RANGES: dict[str, tuple[float, float]] = {
    "pull_batch_size": (1, 1024),
    "max_span": (1, 65535),
    "queue_messages": (1, 65535),
    "queue_bytes": (MIB, 1024 * MIB),
}
_PUSH_RANGES = _RANGES | {
    "consumers": (1, 1000),
    "batch_size": (1, 1024),
    "pull_interval": (0, 65.535),
    "topic_messages": (1, 6553500),
    "topic_bytes": (MIB, 102400 * MIB),
    "max_reconsume_times": (0, MAX_DELAY_ORDERLY),
    "suspend_time": (0.01, 30.0),
    "consume_timeout": (1, 10**9),
    "persist_interval": (0.1, 10**9),
    "rebalance_interval": (1, 10**9),
    "long_poll": (0.1, 3600),
    "grace": (0, 10**9),
    "invisible_duration": (5, 300),
    "pop_messages": (1, 1000),
}
_LITE_RANGES = _RANGES | {
    "all_messages": (1, 65_535_000),
    "commit_interval": (1, 10**9),
    "queue_check_interval": (0.1, 10**9),
    "suspend": (0.001, 3600),
    "rebalance_interval": (0.1, 10**9),
}
_OPTIONAL = frozenset({"topic_messages", "topic_bytes", "max_reconsume_times"})  # -1: none


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Options of every consumer that shares queues. Raises InvalidRequest if one is out of its range.

    `from_timestamp` is in epoch ms (None: half an hour before the start). `trace`: True writes traces to
    RMQ_SYS_TRACE_TOPIC, a string to that topic. If too many traces are waiting, listeners and polls wait with
    `trace_waits`; without it, traces are dropped. `offsets_folder`: folder for the offsets of broadcasting
    consumers (None: ~/.rocketmq_offsets, as in Java).
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    from_timestamp: int | None = None
    allocate: Allocate = averagely
    pull_batch_size: int = 32
    max_span: int = 2000
    queue_messages: int = 1000
    queue_bytes: int = 100 * MIB
    rebalance_interval: float = REBALANCE_INTERVAL
    pull_timeout: float = 30.0
    offsets_folder: Path | None = None
    trace: bool | str = False
    trace_waits: bool = False

    _ranges: ClassVar = _RANGES
    _long_poll: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        for name, (low, high) in self._ranges.items():
            value = getattr(self, name)
            if not low <= value <= high and not (name in _OPTIONAL and value == -1):
                raise InvalidRequest(f"{name} is {value}, out of range [{low}, {high}]")
        if self._long_poll is not None and self.pull_timeout <= getattr(self, self._long_poll):
            raise InvalidRequest(f"pull_timeout must be longer than {self._long_poll}")

    @property
    def broadcasting(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings(ConsumerSettings):
    """Options of a PushConsumer, in addition to those of ConsumerSettings.

    `consumers`: concurrent listener calls (20 to 64 is sensible, 1000 the maximum); `batch_size`: messages
    per call. `max_reconsume_times` -1: 16 for a concurrent listener, unlimited for an orderly one. Thresholds
    of a topic (-1: none) are divided among its queues. `grace`: seconds that running listeners get when the
    consumer is closed; then they are cancelled, and their messages are consumed again.

    With `pop`, a broker lends messages for `invisible_duration` seconds (5 to 300), renewed until the
    listener returns, and at most `pop_messages` of a queue, or of all queues of a broker, at a time.

    ```python
    settings = PushSettings(consumers=50, batch_size=16, max_reconsume_times=3)
    ```
    """

    consumers: int = 20
    batch_size: int = 1
    pull_interval: float = 0.0
    topic_messages: int = -1
    topic_bytes: int = -1
    post_subscription: bool = False
    max_reconsume_times: int = -1
    suspend_time: float = 1.0
    consume_timeout: float = 15 * 60.0
    persist_interval: float = PERSIST_INTERVAL
    long_poll: float = 15.0
    grace: float = 3.0
    invisible_duration: float = 60.0
    pop_messages: int = 96

    _ranges: ClassVar = _PUSH_RANGES
    _long_poll: ClassVar[str | None] = "long_poll"

    def reconsume_limit(self, orderly: bool) -> int:
        """Return the number of retries after which a message becomes a dead letter."""
        if self.max_reconsume_times != -1:
            return self.max_reconsume_times
        return MAX_DELAY_ORDERLY if orderly else DEFAULT_RECONSUME_TIMES


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteSettings(ConsumerSettings):
    """Options of a LitePullConsumer, in addition to those of ConsumerSettings.

    `all_messages`, `queue_messages`, `queue_bytes` and `max_span` limit the messages that wait for `poll`.
    `commit_interval`: seconds between two automatic commits by `poll` (at least 1).

    ```python
    settings = LiteSettings(auto_commit=False, poll_timeout=1.0)
    async with LitePullConsumer("scanners", settings=settings) as consumer:
        ...
    ```
    """

    pull_batch_size: int = 10
    all_messages: int = 10_000
    poll_timeout: float = 5.0
    auto_commit: bool = True
    commit_interval: float = PERSIST_INTERVAL
    queue_check_interval: float = 30.0
    suspend: float = 20.0

    _ranges: ClassVar = _LITE_RANGES
    _long_poll: ClassVar[str | None] = "suspend"


# Subscriptions of a group, as sent in heartbeats and pulls.
#
# A version is epoch ms. The broker keeps the newest, and refuses a pull with a newer version than it has
# received (25). So heartbeats carry `data.sub_version`, and pulls use it only after every broker has received a
# heartbeat (`announced`).


class MessageSelector(NamedTuple):
    """The filter of a subscription: a tag expression, or a SQL92 condition on properties.

    ```python
    async def listen(messages, context):
        return ConsumeResult.SUCCESS

    topics = {"orders": MessageSelector.by_sql("price > 10"), "parcels": MessageSelector("sent || lost")}
    await admin.topics.create("parcels")
    async with PushConsumer("packers", topics, listen):
        ...
    ```
    """

    expression: str
    expression_type: str = "TAG"

    @classmethod
    def by_sql(cls, condition: str) -> MessageSelector:
        return cls(condition, "SQL92")

    @property
    def is_sql(self) -> bool:
        return self.expression_type != "TAG"

    def tags(self) -> frozenset[str]:
        """Return the tags of the expression; empty for all messages and for SQL92. Raises InvalidRequest."""
        if self.is_sql:
            return frozenset()
        try:
            return parse_tags(self.expression)
        except SelectorError as error:
            raise InvalidRequest(str(error)) from error


class Subscription:
    """A subscription. `tags` is empty for all messages and for SQL92, which the broker evaluates."""

    def __init__(self, topic: str, selector: MessageSelector, version: int) -> None:
        self.selector = selector
        self.tags = selector.tags()
        self.announced = version
        expression, kind = selector
        self.data = (
            SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)
            if selector.is_sql
            else tag_subscription(topic, expression, version)
        )

    def renew(self, now_ms: int) -> None:
        """Set a new version for the next heartbeat."""
        # Versions must increase, even if the clock goes back or two changes share a millisecond.
        version = max(now_ms, self.data.sub_version + 1)
        self.data = msgspec.structs.replace(self.data, sub_version=version)


def subscription_of(topic: str, given: str | MessageSelector, version: int) -> Subscription:
    """Return the subscription to a topic. Raises InvalidRequest for an invalid name or expression."""
    valid(check_topic, topic)
    selector = given if isinstance(given, MessageSelector) else MessageSelector(given)
    return Subscription(topic, selector, version)


def subscriptions(
    wanted: Mapping[str, str | MessageSelector], group: str, version: int, *, with_retry: bool
) -> dict[str, Subscription]:
    """Return subscriptions to the given topics and, with `with_retry`, to the retry topic of the group."""
    if not wanted:
        raise InvalidRequest("a consumer needs at least one topic")
    found: dict[str, Subscription] = {}
    for topic, given in wanted.items():
        found[topic] = subscription_of(topic, given, version)
    if with_retry:
        topic = retry_topic(group)
        found[topic] = Subscription(topic, MessageSelector(ALL), version)
    return found


async def check_at(instance: ClientInstance, address: str, group: str, data: SubscriptionData) -> None:
    """Raise BrokerRefused for a SQL92 condition that this broker does not accept (code 46)."""
    body = CheckClientRequestBody(client_id=instance.client_id, group=group, subscription_data=data)
    await instance.ask(address, CHECK_CLIENT_CONFIG, None, body)


async def check_at_broker(instance: ClientInstance, group: str, data: SubscriptionData) -> None:
    """Call `check_at` for a random broker of the topic."""
    route = await instance.route(data.topic)
    addresses = [table[min(table)] for table in route.brokers.values() if table]
    await check_at(instance, instance.random.choice(addresses), group, data)
