"""A group that joins for the first time: whoever hears of it finds its retry topic at the name servers."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.client import Admin
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.names import retry_topic
from rmqcli.codec.operations.clients import HEART_BEAT
from rmqcli.codec.remoting.command import RemotingCommand

SECONDS = 1.0
LONG = "a = 1" + " OR a = 1" * 100
"""A text that a thread compiles."""


@pytest.mark.parametrize(("kind", "text"), [("TAG", "*"), ("SQL92", LONG)])
async def test_a_heartbeat_is_answered_when_the_name_servers_know_the_retry_topic(
    autojump_clock: trio.abc.Clock, kind: str, text: str
) -> None:
    async def slow_registration(address: str, request: RemotingCommand) -> None:
        if request.code == RequestCode.REGISTER_BROKER:
            await trio.sleep(SECONDS)

    subscription = SubscriptionData(topic="T", sub_string=text, expression_type=kind)
    consumer = ConsumerData(group_name="G", subscription_data_set=[subscription])
    heartbeat = HeartbeatData(client_id="a", consumer_data_set=[consumer])
    settings: dict[str, Any] = {"enable_property_filter": True}
    async with (
        broker.embedded_in_memory(on_request=slow_registration, **settings) as cluster,
        Admin(**cluster.client()) as admin,
    ):
        await trio.sleep(2 * SECONDS)
        begun = trio.current_time()
        await admin.instance.ask(cluster.broker_address, HEART_BEAT, None, heartbeat)
        assert trio.current_time() - begun == pytest.approx(SECONDS)
        assert (await admin.topics.route(retry_topic("G"))).queue_datas
        begun = trio.current_time()
        await admin.instance.ask(cluster.broker_address, HEART_BEAT, None, heartbeat)
        assert trio.current_time() == begun
