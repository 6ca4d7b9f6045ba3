"""Subscriptions of a group, as sent in heartbeats and pulls.

A version is epoch ms. The broker keeps the newest, and refuses a pull with a newer version than it has
received (25). So heartbeats carry `data.sub_version`, and pulls use it only after every broker has received a
heartbeat (`announced`).
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
from rmqcli.client.errors import InvalidRequest, valid
from rmqcli.client.instance import ClientInstance


class MessageSelector(NamedTuple):
    """The filter of a subscription: a tag expression, or a SQL92 condition on properties."""

    expression: str
    expression_type: str = "TAG"

    @classmethod
    def by_sql(cls, condition: str) -> MessageSelector:
        return cls(condition, "SQL92")

    @property
    def is_sql(self) -> bool:
        return self.expression_type != "TAG"

    def tags(self) -> frozenset[str]:
        """Return the tags of the expression; none for all messages and for SQL92. Raises InvalidRequest."""
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
        version = max(now_ms, self.data.sub_version + 1)
        self.data = msgspec.structs.replace(self.data, sub_version=version)


def subscription_of(topic: str, given: str | MessageSelector, version: int) -> Subscription:
    """Return the subscription to a topic; InvalidRequest for an invalid name or expression."""
    valid(check_topic, topic)
    selector = given if isinstance(given, MessageSelector) else MessageSelector(given)
    return Subscription(topic, selector, version)


def subscriptions(
    wanted: Mapping[str, str | MessageSelector], group: str, version: int, *, with_retry: bool
) -> dict[str, Subscription]:
    """Subscriptions to the wanted topics, and with `with_retry` to the retry topic of the group."""
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
    """Raise BrokerRefused for a SQL92 condition that this broker does not accept (code 46)."""
    body = CheckClientRequestBody(client_id=instance.client_id, group=group, subscription_data=data)
    await instance.ask(address, CHECK_CLIENT_CONFIG, None, body)


async def check_at_broker(instance: ClientInstance, group: str, data: SubscriptionData) -> None:
    """Call `check_at` for a random broker of the topic."""
    route = await instance.route(data.topic)
    addresses = [table[min(table)] for table in route.brokers.values() if table]
    await check_at(instance, instance.random.choice(addresses), group, data)
