"""SQL92 and order topics over real sockets: pulls, a group whose filter outlives its broker, the name
server's KV config.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.client import (
    Admin,
    BrokerRefused,
    ConsumeContext,
    ConsumeResult,
    MessageSelector,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
)
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.config import TopicConfigSerializeWrapper
from rmqcli.codec.bodies.filters import ConsumerFilterManager
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import Message, MessageExt
from tests.support import PATIENCE

TOPIC, GROUP = "Orders", "Paid"
PATIENT: Any = {"timeout": PATIENCE, "send_timeout": PATIENCE}
FILTERING: Any = {
    "enable_property_filter": True,
    "enable_consume_queue_ext": True,
    "enable_calc_filter_bit_map": True,
}


async def send(producer: Producer, prices: range) -> None:
    for price in prices:
        properties = {"price": str(price), "region": "eu" if price % 2 else "us"}
        await producer.send(Message.of(TOPIC, b"%d" % price, properties=properties))


async def pulled(consumer: PullConsumer, condition: str) -> list[int]:
    found: list[int] = []
    for queue in await consumer.message_queues(TOPIC):
        offset, end = 0, await consumer.max_offset(queue)
        while offset < end:
            result = await consumer.pull(queue, offset, expression=condition, expression_type="SQL92")
            found += [int(message.body) for message in result.messages]
            offset = result.next_begin_offset
    return sorted(found)


async def test_pulls_by_properties() -> None:
    async with (
        broker.embedded(**FILTERING) as cluster,
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
        PullConsumer(namesrv=cluster.namesrv, timeout=PATIENCE) as consumer,
    ):
        await send(producer, range(40))
        assert await pulled(consumer, "price BETWEEN 10 AND 19 AND region = 'eu'") == [11, 13, 15, 17, 19]
        assert await pulled(consumer, "region IS NULL") == []
        assert await pulled(consumer, "UNIQ_KEY IS NOT NULL AND price > 37") == [38, 39]


class Seen:
    """A listener; `reached(count)` waits for so many messages."""

    def __init__(self) -> None:
        self.prices: list[int] = []
        self._news = trio.Event()

    async def __call__(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        self.prices += [int(message.body) for message in messages]
        self._news.set()
        self._news = trio.Event()
        return ConsumeResult.SUCCESS

    async def reached(self, count: int) -> list[int]:
        with trio.fail_after(PATIENCE):
            while len(self.prices) < count:
                await self._news.wait()
        return sorted(self.prices)


def consumer(namesrv: str, condition: str, listener: Seen) -> PushConsumer:
    settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    topics = {TOPIC: MessageSelector.by_sql(condition)}
    return PushConsumer(GROUP, topics, listener, settings=settings, namesrv=namesrv, timeout=PATIENCE)


async def test_a_filter_holds_before_and_after_a_restart_of_the_broker(tmp_path: Path) -> None:
    """The second time, the bit maps of messages that arrived while the group was away decide."""
    async with (
        broker.embedded(store=tmp_path, **FILTERING) as cluster,
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
    ):
        await send(producer, range(10))
        seen = Seen()
        async with consumer(cluster.namesrv, "region = 'eu' AND price < 16", seen):
            assert await seen.reached(5) == [1, 3, 5, 7, 9]
            await send(producer, range(10, 15))
            assert await seen.reached(7) == [1, 3, 5, 7, 9, 11, 13]
    saved = decode_body(ConsumerFilterManager, (tmp_path / "config" / "consumerFilter.json").read_bytes())
    assert saved.filter_data_by_topic[TOPIC].group_filter_data[GROUP].dead
    async with (
        broker.embedded(store=tmp_path, **FILTERING) as cluster,
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
    ):
        await send(producer, range(15, 20))
        seen = Seen()
        async with consumer(cluster.namesrv, "region = 'eu' AND price < 16", seen):
            assert await seen.reached(1) == [15]


@pytest.mark.parametrize(
    ("settings", "condition", "code", "remark"),
    [
        ({}, "price > 1", ResponseCode.SYSTEM_ERROR, "does not support consumer to filter message by SQL92"),
        (FILTERING, "price >", ResponseCode.SUBSCRIPTION_PARSE_FAILED, ""),
    ],
)
async def test_a_condition_that_the_broker_does_not_take_ends_the_start(
    settings: dict[str, Any], condition: str, code: ResponseCode, remark: str
) -> None:
    async with (
        broker.embedded(**settings) as cluster,
        Producer(namesrv=cluster.namesrv, **PATIENT) as producer,
    ):
        await send(producer, range(1))
        with pytest.raises(BrokerRefused) as refused:
            async with consumer(cluster.namesrv, condition, Seen()):
                pass
        assert refused.value.code == code
        assert remark in refused.value.remark


async def topics(admin: Admin, address: str) -> dict[str, bool]:
    reply = await admin.invoke(address, RequestCode.GET_ALL_TOPIC_CONFIG)
    table = decode_body(TopicConfigSerializeWrapper, reply.body).topic_config_table
    return {name: config.order for name, config in table.items()}


async def test_the_name_server_knows_ordered_topics() -> None:
    """ORDER_TOPIC_CONFIG reaches a broker with the reply to its next registration, which every change of a
    topic causes.
    """
    async with (
        broker.embedded() as cluster,
        Admin(namesrv=cluster.namesrv, timeout=PATIENCE) as admin,
    ):
        entry = {"namespace": "ORDER_TOPIC_CONFIG", "key": TOPIC}
        new = {"defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}

        async def create(topic: str) -> dict[str, bool]:
            header = new | {"topic": topic, "topicFilterType": "SINGLE_TAG", "order": "true"}
            await admin.invoke(cluster.broker_address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            return await topics(admin, cluster.broker_address)

        assert (await create(TOPIC))[TOPIC] is False, "the header of the request does not count"
        value = entry | {"value": f"{cluster.broker_name}:1"}
        await admin.invoke(cluster.namesrv, RequestCode.PUT_KV_CONFIG, value)
        known = await create("Another")
        assert (known[TOPIC], known["Another"]) == (True, False)
        saved = json.loads((cluster.store_path / "config" / "topics.json").read_bytes())
        assert saved["topicConfigTable"][TOPIC]["order"] is True
        await admin.invoke(cluster.namesrv, RequestCode.DELETE_KV_CONFIG, entry)
        assert (await create("Third"))[TOPIC] is False
        await admin.topics.create("Fourth", order=True, brokers=[cluster.broker_name])
        assert (await create("Fifth"))["Fourth"] is True
        await admin.topics.delete("Fourth")
        await admin.topics.create("Fourth")
        assert (await create("Sixth"))["Fourth"] is False
