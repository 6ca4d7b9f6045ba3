"""With SYNC_FLUSH nobody reads a message that a power cut could still take."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from broker.testing.in_memory import embedded_in_memory
from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.client import Producer, PullConsumer, PullStatus

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
