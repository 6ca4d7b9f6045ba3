"""Changes of the queues of a topic (Java `TopicMessageQueueChangeListener`)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import trio

from codec.message_queue import MessageQueue
from rmqcli.client.errors import ClientError
from rmqcli.client.instance import ClientInstance


async def watch(
    instance: ClientInstance,
    topic: str,
    known: Sequence[MessageQueue],
    interval: float,
    sender: trio.MemorySendChannel[list[MessageQueue]],
) -> None:
    """Reads the readable queues of `topic` every `interval` seconds and sends them when they change.

    Ends when the channel has no receiver.
    """
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
