"""Attributes of topics and settings of groups that brokers before 5.0 drop without a word."""

from __future__ import annotations

from typing import Any

import pytest

from rmqcli.client import SettingsIgnored
from rmqcli.codec.bodies.config import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.base import from_ext
from rmqcli.codec.headers.topics import CreateTopicRequestHeader
from tests.client.masters import TOPIC, A, B, Cluster, admin_of, body
from tests.client.scripted import Network, ok

FIFO = "+message.type=FIFO"


@pytest.fixture
def cluster(network: Network) -> Cluster:
    """broker-a keeps what it is told, broker-b is older than 5.0."""
    cluster = Cluster(network)
    for server, attributes in ((cluster.a, {"message.type": "FIFO"}), (cluster.b, None)):
        topics = TopicConfigSerializeWrapper({TOPIC: TopicConfig(TOPIC, attributes=attributes)})
        group = SubscriptionGroupConfig("G", consume_message_orderly=None if attributes is None else True)
        server.replies |= {
            RequestCode.UPDATE_AND_CREATE_TOPIC: ok(),
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ok(),
            RequestCode.GET_ALL_TOPIC_CONFIG: body(topics),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: body(SubscriptionGroupWrapper({"G": group})),
        }
    return cluster


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_a_broker_that_drops_attributes_is_named(
    cluster: Cluster, autojump_clock: Any, verb: str
) -> None:
    async with admin_of(cluster) as admin:
        change = await getattr(admin.topics, verb)(TOPIC, attributes=FIFO)
    assert change.brokers == ("broker-a",)
    text = f"topic {TOPIC} has no message.type on {B}, which is older than 5.0; the rest was applied"
    assert {name: str(error) for name, error in change.failures.items()} == {"broker-b": text}
    sent = next(c for c in cluster.a.asked if c.code == RequestCode.UPDATE_AND_CREATE_TOPIC)
    assert from_ext(CreateTopicRequestHeader, sent.ext_fields).attributes == FIFO


async def test_an_attribute_that_nobody_keeps_is_an_error(cluster: Cluster, autojump_clock: Any) -> None:
    async with admin_of(cluster) as admin:
        with pytest.raises(SettingsIgnored, match=rf"on {B}"):
            await admin.topics.create(TOPIC, attributes=FIFO, brokers=["broker-b"])


async def test_an_attribute_that_keeps_another_value_is_an_error(
    cluster: Cluster, autojump_clock: Any
) -> None:
    async with admin_of(cluster) as admin:
        with pytest.raises(SettingsIgnored, match=rf"on {A}"):
            await admin.topics.create(TOPIC, attributes="+message.type=DELAY", brokers=["broker-a"])


async def test_nothing_is_read_again_without_attributes(cluster: Cluster, autojump_clock: Any) -> None:
    async with admin_of(cluster) as admin:
        await admin.topics.create(TOPIC)
        await admin.groups.create(SubscriptionGroupConfig("G"))
        await admin.topics.update(TOPIC, attributes="-message.type", brokers=["broker-a"])
    codes = [command.code for command in cluster.b.asked]
    assert RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG not in codes
    assert codes.count(RequestCode.GET_ALL_TOPIC_CONFIG) == 1  # of the update


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_a_broker_that_drops_settings_of_a_group_is_named(
    cluster: Cluster, autojump_clock: Any, verb: str
) -> None:
    async with admin_of(cluster) as admin:
        if verb == "create":
            change = await admin.groups.create(SubscriptionGroupConfig("G", consume_message_orderly=True))
        else:
            change = await admin.groups.update("G", {"consume_message_orderly": True})
    assert change.brokers == ("broker-a",)
    (error,) = change.failures.values()
    assert str(error).startswith(f"group G has no consumeMessageOrderly on {B}, which is older than 5.0")
    assert A not in str(error)
