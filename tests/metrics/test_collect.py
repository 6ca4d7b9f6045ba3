"""A scrape of a cluster with running clients."""

from __future__ import annotations

from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Admin, Producer
from rmqcli.client.admin.values import BrokerLag
from rmqcli.codec.bodies.stats import OffsetWrapper
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.metrics.collect import collect
from rmqcli.metrics.rates import group_samples


async def test_running_producers_are_counted() -> None:
    async with (
        embedded_in_memory() as cluster,
        Admin(**cluster.client()) as admin,
        Producer("shops", **cluster.client(), instance_name="1") as one,
        Producer("shops", **cluster.client(), instance_name="2") as other,
    ):
        for producer in (one, other):
            await producer.send(Message.of("orders", b"1"))
        found = await collect(admin)
    counts = {
        sample.labels[1:]: sample.value for sample in found if sample.family.name == "rocketmq_producer_count"
    }
    assert counts["broker-a", "shops"] == 2


def test_lag_is_told_apart_by_the_kind_of_topic() -> None:
    topics = {"orders": "diff", "%RETRY%packers": "retrydiff", "%DLQ%packers": "dlqdiff"}
    lags = [
        BrokerLag(
            "broker-a",
            "packers",
            MessageQueue(topic, "broker-a", 0),
            OffsetWrapper(broker_offset=9, consumer_offset=4),
        )
        for topic in topics
    ]
    found = {one.labels[1]: one for one in group_samples({}, lags, {}, 0) if one.family.name.endswith("diff")}
    assert {topic: one.family.name for topic, one in found.items()} == {
        topic: f"rocketmq_group_{name}" for topic, name in topics.items()
    }
    assert {one.value for one in found.values()} == {5}
