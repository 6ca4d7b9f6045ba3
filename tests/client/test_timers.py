"""Messages with a delay of any length, or a time, and their recall by the producer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from trio.testing import MockClock

from rmqcli.broker import embedded_in_memory
from rmqcli.client import BrokerRefused, InvalidRequest, LitePullConsumer, Message, Producer
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.recall_handle import RecallHandle


async def test_what_is_recalled_does_not_arrive(autojump_clock: MockClock) -> None:
    async with (
        embedded_in_memory(default_topic_queue_nums=1) as cluster,
        Producer("shop", **cluster.client()) as producer,
        LitePullConsumer("callers", **cluster.client()) as consumer,
    ):
        await producer.send(Message.of("calls", "now"))
        (queue,) = await consumer.message_queues("calls")
        await consumer.assign([queue])
        await consumer.seek_to_begin(queue)
        assert [message.body for message in await consumer.poll()] == [b"now"]
        recalled = await producer.send(Message.of("calls", "no", delay=60))
        kept = await producer.send(Message.of("calls", "yes", delay=60.5))
        assert recalled.recall_handle is not None and kept.recall_handle != recalled.recall_handle
        assert await producer.recall("calls", recalled.recall_handle) == recalled.msg_id
        assert await consumer.poll(50) == []
        assert [message.body for message in await consumer.poll(20)] == [b"yes"]
        assert await consumer.poll(100) == []


async def test_what_cannot_be_recalled(autojump_clock: MockClock) -> None:
    async with embedded_in_memory() as cluster, Producer("shop", **cluster.client()) as producer:
        sent = await producer.send(Message.of("calls", "now"))
        assert sent.recall_handle is None
        for text in ("", "no handle", "bm8gaGFuZGxl"):
            with pytest.raises(InvalidRequest, match="recall handle is invalid"):
                await producer.recall("calls", text)
        past = RecallHandle("calls", sent.message_queue.broker_name, 1, "key").encode()
        with pytest.raises(BrokerRefused, match="timestamp invalid"):
            await producer.recall("calls", past)


def test_a_handle_is_the_one_of_java() -> None:
    text = "djEgVG9waWMgYnJva2VyLWEgMTcwMDAwMDAwMDAwMSBLZXk="
    handle = RecallHandle("Topic", "broker-a", 1_700_000_000_001, "Key")
    assert handle.encode() == text and RecallHandle.decode(text) == handle


@pytest.mark.parametrize(
    ("options", "properties"),
    [
        ({"delay": 1.5}, {PropertyName.TIMER_DELAY_MS: "1500"}),
        ({"delay": 0}, {PropertyName.TIMER_DELAY_MS: "0"}),
        ({"deliver_at": datetime(2030, 1, 1, tzinfo=UTC)}, {PropertyName.TIMER_DELIVER_MS: "1893456000000"}),
    ],
)
def test_properties(options: dict[str, Any], properties: dict[str, str]) -> None:
    assert Message.of("calls", "", **options).properties == properties


@pytest.mark.parametrize(
    "options",
    [
        {"delay": -1},
        {"delay": float("nan")},
        {"delay": 1, "delay_level": 1},
        {"delay": 1, "deliver_at": datetime(2030, 1, 1, tzinfo=UTC)},
    ],
)
def test_impossible_delays(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="delay"):
        Message.of("calls", "", **options)


@pytest.mark.parametrize("options", [{"delay": "5s"}, {"delay": timedelta(1)}, {"deliver_at": 5}])
def test_wrong_kinds(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="message"):
        Message.of("calls", "", **options)
