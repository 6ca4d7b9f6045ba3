"""Connections that go elsewhere than the name server says."""

from __future__ import annotations

from typing import Any

import pytest

from rmqcli import broker
from rmqcli.client import Admin, ConnectionFailed, InvalidRequest, Producer, PullConsumer, PullStatus
from rmqcli.client.wire.addresses import AddressMap
from rmqcli.codec.message import Message
from tests.support import PATIENCE

ELSEWHERE = "192.0.2.7"
"""An address of no machine (RFC 5737)."""


@pytest.mark.parametrize(
    ("rules", "address", "target"),
    [
        ({}, "a:1", "a:1"),
        ({"a:1": "b:2"}, "a:1", "b:2"),
        ({"a:1": "b:2"}, "a:10", "a:10"),
        ({"a": "b"}, "a:10", "b:10"),
        ({"a": "b", "a:1": "c:3"}, "a:1", "c:3"),
        ({" a:1 ": " b:2 "}, "a:1", "b:2"),
        ({"[fe80::1]:1": "b:2"}, "[fe80::1]:1", "b:2"),
        ({"[fe80::1]": "b"}, "[fe80::1]:9", "b:9"),
        ({"a": "[::1]"}, "a:9", "[::1]:9"),
        ({"a": "b"}, "no address", "no address"),
    ],
)
def test_where_connections_go(rules: dict[str, str], address: str, target: str) -> None:
    assert AddressMap(rules).target(address) == target


@pytest.mark.parametrize("rule", [("a:1", "b"), ("a", "b:1"), ("a:x", "b:1"), ("a:1", "b:0"), ("a", "")])
def test_rules_that_are_none(rule: tuple[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        AddressMap(dict([rule]))


@pytest.mark.parametrize("with_port", [True, False])
async def test_a_broker_behind_another_address(with_port: bool) -> None:
    async with broker.embedded(broker_ip1=ELSEWHERE) as cluster:
        assert cluster.broker_address.startswith(ELSEWHERE)
        port = cluster.broker_address.rpartition(":")[2]
        rules = {cluster.broker_address: f"127.0.0.1:{port}"} if with_port else {ELSEWHERE: "127.0.0.1"}
        options: Any = {"namesrv": cluster.namesrv, "timeout": PATIENCE, "address_map": rules}
        async with Admin(**options) as admin:
            await admin.topics.create("t", read_queues=1, write_queues=1)
        async with Producer("g", **options) as producer:
            sent = await producer.send(Message(topic="t", body=b"there"))
        async with PullConsumer(**options) as consumer:
            found = await consumer.pull(sent.message_queue, 0)
        assert found.status is PullStatus.FOUND and found.messages[0].body == b"there"
        async with Admin(**options) as admin:
            assert (await admin.messages.view(sent.offset_msg_id)).body == b"there"


async def test_an_error_names_both_addresses() -> None:
    rules = {"10.0.0.5:10911": "127.0.0.1:1"}
    async with Admin(namesrv="127.0.0.1:1", address_map=rules) as admin:
        with pytest.raises(ConnectionFailed) as caught:
            await admin.brokers.runtime_info("10.0.0.5:10911")
    assert str(caught.value).startswith("cannot connect to 10.0.0.5:10911 (mapped to 127.0.0.1:1): ")
