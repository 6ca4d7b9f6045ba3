"""Client ids, unit mode and the VIP channel."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rmqcli.client import (
    ClientInstance,
    InvalidRequest,
    LitePullConsumer,
    LiteSettings,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
)
from rmqcli.client.wire.addresses import local_ip
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import HEARTBEATS, Network, ok, route, sent

NAMESRV, TOPIC = "ns:9876", "T"
PLAIN, VIP = "a:10911", "a:10909"
SEND = RequestCode.SEND_MESSAGE_V2
IP = local_ip()


@pytest.mark.parametrize(
    ("options", "client_id"),
    [
        ({"instance_name": "billing"}, f"{IP}@billing"),
        ({"instance_name": "billing", "unit_name": "north"}, f"{IP}@billing@north"),
        ({"instance_name": "DEFAULT"}, f"{IP}@DEFAULT"),
    ],
)
def test_names_make_the_client_id(options: dict[str, Any], client_id: str) -> None:
    assert ClientInstance(**options).client_id == client_id


def test_every_instance_without_a_name_has_one_of_its_own() -> None:
    ids = {ClientInstance(unit_name="north").client_id for _ in range(3)}
    assert len(ids) == 3
    assert all(one.startswith(f"{IP}@{os.getpid()}#") and one.endswith("@north") for one in ids)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\nb", "\x00"])
@pytest.mark.parametrize("kind", ["instance_name", "unit_name"])
def test_names_that_no_folder_can_have(kind: str, name: str) -> None:
    options: Any = {kind: name}
    with pytest.raises(InvalidRequest, match=f"{kind} .* is empty, or holds a slash"):
        ClientInstance(**options)


@pytest.mark.parametrize(
    ("options", "client_id"),
    [
        ({}, f"{IP}@DEFAULT"),
        ({"unit_name": "north"}, f"{IP}@DEFAULT@north"),
        ({"instance_name": "second"}, f"{IP}@second"),
    ],
)
def test_broadcasting_consumers_keep_their_name(
    options: dict[str, Any], client_id: str, tmp_path: Path
) -> None:
    kept: Any = {"message_model": MessageModel.BROADCASTING, "offsets_folder": tmp_path}
    push = PushConsumer("G", {TOPIC: "*"}, print, settings=PushSettings(**kept), **options)
    lite = LitePullConsumer("G", settings=LiteSettings(**kept), **options)
    assert {push.instance.client_id, lite.instance.client_id} == {client_id}
    clustering = LitePullConsumer("G", settings=LiteSettings(), **options)
    assert (clustering.instance.client_id == client_id) is ("instance_name" in options)


@pytest.mark.parametrize("unit_mode", [False, True])
async def test_unit_mode_is_sent(network: Network, unit_mode: bool, autojump_clock: Any) -> None:
    network.server(NAMESRV, {RequestCode.GET_ROUTEINFO_BY_TOPIC: topic_route()})
    server = network.server(PLAIN, {SEND: sent, **HEARTBEATS})
    options: Any = {"namesrv": NAMESRV, "open_stream": network.open_stream, "unit_mode": unit_mode}
    async with Producer("PG", **options) as producer:
        await producer.send(Message.of(TOPIC, b"x"))
    async with LitePullConsumer("G", **options) as consumer:
        await consumer.subscribe(TOPIC)
        await consumer.instance.heartbeats.send_all()
    beats = [json.loads(bytes(c.body)) for c in server.asked if c.code == RequestCode.HEART_BEAT]
    assert [fields(c)["k"] for c in server.asked if c.code == SEND] == [str(unit_mode).lower()]
    assert {data["unitMode"] for beat in beats for data in beat["consumerDataSet"]} == {unit_mode}


def topic_route() -> Any:
    return route({TOPIC: {"broker-a": 1}}, {"broker-a": {0: PLAIN}})


def fields(command: RemotingCommand) -> dict[str, str]:
    return command.ext_fields or {}


async def test_short_requests_go_by_the_vip_channel(network: Network, autojump_clock: Any) -> None:
    network.server(NAMESRV, {RequestCode.GET_ROUTEINFO_BY_TOPIC: topic_route()})
    pull = ok({"suggestWhichBrokerId": "0", "nextBeginOffset": "1", "minOffset": "0", "maxOffset": "0"})
    plain = network.server(PLAIN, {RequestCode.PULL_MESSAGE: pull, **HEARTBEATS})
    vip = network.server(VIP, {SEND: sent, RequestCode.GET_MAX_OFFSET: ok({"offset": "3"})})
    options: Any = {"namesrv": NAMESRV, "open_stream": network.open_stream, "vip_channel": True}
    queue = MessageQueue(TOPIC, "broker-a", 0)
    async with Producer("PG", **options) as producer, PullConsumer("G", **options) as consumer:
        await producer.send(Message.of(TOPIC, b"x"))
        await producer.send_oneway(Message.of(TOPIC, b"y"))
        await consumer.max_offset(queue)
        await consumer.pull(queue, 0)
        await producer.instance.heartbeats.send_all()
    assert set(vip.codes()) == {SEND, RequestCode.GET_MAX_OFFSET}
    assert set(plain.codes()) == {
        RequestCode.PULL_MESSAGE,
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
    }
    assert [bytes(c.body) for c in vip.asked if c.code == SEND] == [b"x", b"y"]


async def test_the_vip_channel_is_off_by_default(network: Network, autojump_clock: Any) -> None:
    network.server(NAMESRV, {RequestCode.GET_ROUTEINFO_BY_TOPIC: topic_route()})
    plain = network.server(PLAIN, {SEND: sent, **HEARTBEATS})
    async with Producer("PG", namesrv=NAMESRV, open_stream=network.open_stream) as producer:
        await producer.send(Message.of(TOPIC, b"x"))
    assert plain.count(SEND) == 1
