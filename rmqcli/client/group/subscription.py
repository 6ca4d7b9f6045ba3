"""What a group wants of its topics, as its heartbeats and pulls say it.

A version is epoch ms and the newer wins at the broker, which refuses a pull with a version that it has not heard of (25).
So `version` is what heartbeats say, and pulls use it only after a heartbeat has been everywhere (`announced`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from codec.bodies.heartbeat import CheckClientRequestBody, SubscriptionData
from codec.errors import SelectorError
from codec.message import check_topic, retry_topic
from codec.operations.clients import CHECK_CLIENT_CONFIG
from codec.selector import ALL, parse_tags, tag_subscription
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.instance import ClientInstance


class MessageSelector(NamedTuple):
    """What is wanted of a topic: a tag expression, or a SQL92 condition on properties."""

    expression: str
    expression_type: str = "TAG"

    @classmethod
    def by_sql(cls, condition: str) -> MessageSelector:
        return cls(condition, "SQL92")


class Subscription:
    """One topic. `tags` is empty when every message is wanted, or a SQL92 condition decides at the broker."""

    def __init__(self, topic: str, selector: MessageSelector, version: int) -> None:
        self.selector = selector
        self.tags = _tags(selector)
        self.announced = version
        self.data = _data(topic, selector, version)

    @property
    def is_sql(self) -> bool:
        return self.selector.expression_type != "TAG"

    def renew(self, now_ms: int) -> None:
        """A new version, for the next heartbeat."""
        version = max(now_ms, self.data.sub_version + 1)
        self.data = msgspec.structs.replace(self.data, sub_version=version)


def _tags(selector: MessageSelector) -> frozenset[str]:
    if selector.expression_type != "TAG":
        return frozenset()
    try:
        return parse_tags(selector.expression)
    except SelectorError as error:
        raise InvalidRequest(str(error)) from error


def _data(topic: str, selector: MessageSelector, version: int) -> SubscriptionData:
    if selector.expression_type == "TAG":
        return tag_subscription(topic, selector.expression, version)
    return SubscriptionData(
        topic=topic,
        sub_string=selector.expression,
        sub_version=version,
        expression_type=selector.expression_type,
    )


def subscription_of(topic: str, given: str | MessageSelector, version: int) -> Subscription:
    """InvalidRequest when the topic's name or the expression is none."""
    try:
        check_topic(topic)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    selector = given if isinstance(given, MessageSelector) else MessageSelector(given)
    return Subscription(topic, selector, version)


def subscriptions(
    wanted: Mapping[str, str | MessageSelector], group: str, version: int, *, with_retry: bool
) -> dict[str, Subscription]:
    """The copy that a consumer works with: what was asked for, and in clustering the group's retry topic."""
    if not wanted:
        raise InvalidRequest("a push consumer needs at least one topic")
    found: dict[str, Subscription] = {}
    for topic, given in wanted.items():
        found[topic] = subscription_of(topic, given, version)
    if with_retry:
        topic = retry_topic(group)
        found[topic] = Subscription(topic, MessageSelector(ALL), version)
    return found


async def check_at(instance: ClientInstance, address: str, group: str, data: SubscriptionData) -> None:
    """BrokerRefused for a SQL92 condition that this broker does not take (code 46)."""
    body = CheckClientRequestBody(client_id=instance.client_id, group=group, subscription_data=data)
    await instance.ask(address, CHECK_CLIENT_CONFIG, None, body)


async def check_at_broker(instance: ClientInstance, group: str, data: SubscriptionData) -> None:
    """As `check_at`, at any broker of the topic."""
    route = await instance.route(data.topic)
    addresses = [table[min(table)] for table in route.brokers.values() if table]
    await check_at(instance, instance.random.choice(addresses), group, data)
