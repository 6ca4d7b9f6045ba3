"""Clients of a broker that filter by SQL92."""

from __future__ import annotations

from typing import Any

from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmqcli.codec.records.reading import decode_records
from tests.broker.support import Client, Reply, send_header

SQL = {"enable_property_filter": True}
REFUSED = "The broker does not support consumer to filter message by SQL92"
BY_GROUP, BY_HEADER, SUSPENDED = 0, 4, 2


async def subscribed(
    client: Client, text: str, *, version: int = 1, topic: str = "T", group: str = "G", **data: Any
) -> None:
    subscription = SubscriptionData(
        topic=topic, sub_string=text, sub_version=version, expression_type="SQL92"
    )
    consumer = ConsumerData(group_name=group, subscription_data_set=[] if data else [subscription])
    heartbeat = HeartbeatData(
        client_id=f"client-{client.session.peer[1]}", consumer_data_set=[consumer], **data
    )
    assert (await client.ask(34, None, encode_body(heartbeat))).code == 0


async def fill(client: Client, count: int = 6, topic: str = "T") -> None:
    """Messages m0, m1, … with their number as the property a."""
    for number in range(count):
        header = send_header(topic, {"a": str(number), "TAGS": f"Tag{number}"})
        assert (await client.ask(310, header, f"m{number}".encode())).code == 0


async def pull(client: Client, text: str | None = None, **fields: Any) -> Reply:
    """By the group's subscription, or by a text that the pull brings."""
    flag = BY_GROUP if text is None else BY_HEADER
    return await client.pull("T", sys_flag=flag, expression=text or "", expressionType="SQL92", **fields)


def bodies(reply: Reply) -> list[str]:
    assert reply.code in (0, 20), reply
    return [message.body.decode() for message in decode_records(reply.body)]
