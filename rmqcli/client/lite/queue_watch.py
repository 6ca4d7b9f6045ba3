"""Changes of the queues of a topic (Java `registerTopicMessageQueueChangeListener`)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import trio

from codec.message_queue import MessageQueue
from rmqcli.client.errors import ClientError
from rmqcli.client.instance import ClientInstance


def watch(
    instance: ClientInstance, topic: str, known: Sequence[MessageQueue], interval: float
) -> trio.MemoryReceiveChannel[list[MessageQueue]]:
    """A channel of the readable queues of `topic`, which are read every `interval` seconds, when they change.

    It holds the newest state only. The reads end when the channel has no receiver.
    """
    sender, receiver = trio.open_memory_channel[list[MessageQueue]](1)

    async def run() -> None:
        await _watch(instance, topic, known, interval, sender)

    instance.start(run, f"queues of {topic}")
    return receiver


async def _watch(
    instance: ClientInstance,
    topic: str,
    known: Sequence[MessageQueue],
    interval: float,
    sender: trio.MemorySendChannel[list[MessageQueue]],
) -> None:
    async with sender:
        while True:
            await trio.sleep(interval)
            with contextlib.suppress(ClientError):
                route = await instance.routes.read(instance.namespace.wrap(topic), instance.timeout)
                queues = instance.namespace.unwrap_queues(route.subscribe)
                if queues != known:
                    known = queues
                    try:
                        await sender.send(queues)
                    except trio.BrokenResourceError:
                        return
