"""With SYNC_FLUSH nobody reads a message that a power cut could still take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from rmqcli.broker.store.flush import Flusher
from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Admin, ConsumeResult, Producer, PullConsumer, PullStatus, PushConsumer
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue

TOPIC = "T"
DISK_SECONDS = 0.2


@pytest.mark.parametrize(("flush", "after"), [("SYNC_FLUSH", DISK_SECONDS), ("ASYNC_FLUSH", 0.0)])
@pytest.mark.parametrize("suspend", [0.0, 5.0], ids=["pull", "long poll"])
@pytest.mark.parametrize("expression", ["*", "TRUE"], ids=["tags", "SQL92"])
async def test_a_pull_waits_for_the_flush(
    flush: str, after: float, suspend: float, expression: str, autojump_clock: trio.abc.Clock
) -> None:
    settings: dict[str, Any] = {
        "flush_disk_type": flush,
        "default_topic_queue_nums": 1,
        "enable_property_filter": True,
    }
    async with (
        embedded_in_memory(disk_seconds=DISK_SECONDS, **settings) as cluster,
        Producer("P", **cluster.client()) as producer,
        PullConsumer("G", **cluster.client()) as consumer,
        trio.open_nursery() as nursery,
    ):
        await producer.send(Message.of(TOPIC, "0"))
        queue = MessageQueue(TOPIC, cluster.broker_name, 0)
        kind = "TAG" if expression == "*" else "SQL92"
        pull = partial(consumer.pull, queue, suspend=suspend, expression=expression, expression_type=kind)
        assert (await pull(0)).status is PullStatus.FOUND
        begun = trio.current_time()
        times: list[float] = []

        async def read() -> None:
            found = await pull(1)
            assert [message.body for message in found.messages] == [b"1"]
            times.append(trio.current_time() - begun)

        if suspend:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(producer.send, Message.of(TOPIC, "1"))
        await trio.testing.wait_all_tasks_blocked()
        if not suspend:
            nursery.start_soon(read)
        await trio.sleep(2)
        assert times == [pytest.approx(after, abs=0.05)]


Read = Callable[[Admin, MessageExt, str], Awaitable[object]]
"""Reads the message at the place of the second argument and with this key."""


async def _by_key(admin: Admin, place: MessageExt, key: str) -> object:
    return (await admin.messages.query_by_key(TOPIC, key)).messages[0].commit_log_offset


async def _by_id(admin: Admin, place: MessageExt, key: str) -> object:
    return (await admin.messages.view(place.offset_msg_id)).commit_log_offset


async def _by_a_consumer(admin: Admin, place: MessageExt, key: str) -> object:
    """A consumer gets it, because an administrator asks for that."""
    (client,) = (await admin.clients.consumers("G")).connection_set
    result = await admin.clients.consume_directly("G", client.client_id, place)
    return int((result.remark or "").removeprefix("ValueError: "))


async def _take(messages: Sequence[MessageExt], _: object) -> ConsumeResult:
    if messages[0].topic == TOPIC:
        raise ValueError(messages[0].commit_log_offset)
    return ConsumeResult.SUCCESS


@pytest.mark.parametrize(("flush", "after"), [("SYNC_FLUSH", DISK_SECONDS), ("ASYNC_FLUSH", 0.0)])
@pytest.mark.parametrize("read", [_by_key, _by_id, _by_a_consumer])
async def test_a_read_by_key_or_place_waits_for_the_flush(
    flush: str, after: float, read: Read, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush_log = Flusher.flush_log

    async def slowly(flusher: Flusher) -> None:
        await trio.sleep(DISK_SECONDS)
        await flush_log(flusher)

    monkeypatch.setattr(Flusher, "flush_log", slowly)
    settings: dict[str, Any] = {"flush_disk_type": flush, "default_topic_queue_nums": 1}
    async with (
        embedded_in_memory(**settings) as cluster,
        Producer("P", **cluster.client()) as producer,
        Admin(**cluster.client()) as admin,
        PushConsumer("G", {"Other": "*"}, _take, **cluster.client()),
        trio.open_nursery() as nursery,
    ):
        await producer.send(Message.of("Other", "0"))
        sent = await producer.send(Message.of(TOPIC, "0", keys=["k0"]))
        await trio.sleep(40)  # the consumer learns of its topic
        first = await admin.messages.view(sent.offset_msg_id)
        assert await read(admin, first, "k0") == first.commit_log_offset
        second = replace(first, commit_log_offset=first.commit_log_offset + first.store_size)
        begun = trio.current_time()
        nursery.start_soon(producer.send, Message.of(TOPIC, "1", keys=["k1"]))
        await trio.testing.wait_all_tasks_blocked()
        assert await read(admin, second, "k1") == second.commit_log_offset
        assert trio.current_time() - begun == pytest.approx(after, abs=0.05)
