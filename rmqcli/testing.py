"""Assertions for tests that run a cluster: expected messages, dead letters, and lag.

They work with any cluster that has a `namesrv`, such as the fixture `rmq_cluster`, in tests of any kind. They
block: an asyncio test calls them with `asyncio.to_thread`, a trio test with `trio.to_thread.run_sync`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from rmqcli.client.errors import NotFound
from rmqcli.client.sync import Admin, PullConsumer
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import dlq_topic

__all__ = ["HasNameServer", "dead_letters", "expect_message", "lag"]

PAUSE_SECONDS = 0.02
MOST_SHOWN = 10
"""Messages of the topic that a failed assertion shows: the newest ones."""


class HasNameServer(Protocol):
    """A cluster that can be reached."""

    @property
    def namesrv(self) -> str: ...


def expect_message(
    cluster: HasNameServer,
    topic: str,
    where: Callable[[MessageExt], bool] = lambda message: True,
    *,
    within: float = 5.0,
) -> MessageExt:
    """Return the first message of a topic for which `where` is true; wait for it, for at most `within`
    seconds.

    Raises AssertionError, which shows the messages that are there, if none arrives. The topic need not exist
    yet.
    """
    deadline = time.monotonic() + within
    seen: list[MessageExt] = []
    with PullConsumer(namesrv=cluster.namesrv) as consumer:
        offsets: dict[MessageQueue, int] = {}
        while True:
            for message in _new_messages(consumer, topic, offsets):
                if where(message):
                    return message
                seen.append(message)
            if time.monotonic() >= deadline:
                raise AssertionError(_not_found(topic, within, seen))
            time.sleep(PAUSE_SECONDS)


def dead_letters(cluster: HasNameServer, group: str) -> list[MessageExt]:
    """Return the dead letters of a consumer group that are stored now, by queue."""
    with PullConsumer(namesrv=cluster.namesrv) as consumer:
        return list(_new_messages(consumer, dlq_topic(group), {}))


def lag(cluster: HasNameServer, group: str, topic: str | None = None) -> int:
    """Return the number of messages that a consumer group has not consumed yet, of one topic or of all.

    Raises NotFound if the group has committed no offset. Consumers commit theirs every five seconds, and when
    they are closed.
    """
    with Admin(namesrv=cluster.namesrv) as admin:
        return sum(queue.lag or 0 for queue in admin.offsets.lags(group, topic))


def _new_messages(
    consumer: PullConsumer, topic: str, offsets: dict[MessageQueue, int]
) -> Iterator[MessageExt]:
    """Yield the messages from `offsets` on, by queue, and advance these; a topic that does not exist has
    none.
    """
    try:
        queues = consumer.message_queues(topic)
    except NotFound:
        return
    for queue in queues:
        if queue not in offsets:
            offsets[queue] = consumer.min_offset(queue)
        end = consumer.max_offset(queue)
        while offsets[queue] < end:
            pulled = consumer.pull(queue, offsets[queue])
            offsets[queue] = pulled.next_begin_offset
            yield from pulled.messages


def _not_found(topic: str, within: float, seen: list[MessageExt]) -> str:
    if not seen:
        return f"topic {topic} got no message within {within:g} s"
    newest = "\n".join(
        f"  tags {message.tags!r}, keys {message.keys!r}, body {message.body[:80]!r}"
        for message in seen[-MOST_SHOWN:]
    )
    return f"none of {len(seen)} messages of topic {topic} is the expected one within {within:g} s; the newest:\n{newest}"
