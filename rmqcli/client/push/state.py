"""The state that the parts of one push consumer share: settings, subscriptions, queues, offsets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from codec.bodies.heartbeat import ConsumeType
from codec.message_queue import MessageQueue
from rmqcli.client.errors import ClientError
from rmqcli.client.group.offset_store import OffsetFileUnwritable, OffsetStore
from rmqcli.client.group.settings import PushSettings
from rmqcli.client.group.subscription import Subscription
from rmqcli.client.instance import ClientInstance
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.statistics import Statistics

log = logging.getLogger("rmqcli.client.push")


class Thresholds(NamedTuple):
    """The limits of the cache of one queue: messages, bytes."""

    messages: int
    size: int


@dataclass(slots=True)
class GroupState:
    """One consumer. `paused` suspends pulls; `stopping` lets no listener call begin.

    `troubles`: the last errors of topics that could not be divided, and of queues that could not be started
    or pulled.
    """

    instance: ClientInstance
    group: str
    settings: PushSettings
    orderly: bool
    subscriptions: dict[str, Subscription]
    offsets: OffsetStore
    started_ms: int = 0
    paused: bool = False
    stopping: bool = False
    queues: dict[MessageQueue, ProcessQueue] = field(default_factory=dict)
    thresholds: dict[str, Thresholds] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=Statistics)
    troubles: dict[str | MessageQueue, ClientError] = field(default_factory=dict)
    rebalance_soon: Callable[[], None] = lambda: None

    @property
    def needs_locks(self) -> bool:
        return self.orderly and not self.settings.broadcasting

    def threshold(self, topic: str) -> Thresholds:
        given = self.settings
        return self.thresholds.get(topic) or Thresholds(given.queue_messages, given.queue_bytes)

    def share_out(self, topic: str) -> None:
        """Divide the thresholds of a topic among its queues."""
        owned = max(1, sum(queue.topic == topic for queue in self.queues))
        given = self.settings
        self.thresholds[topic] = Thresholds(
            given.queue_messages if given.topic_messages == -1 else max(1, given.topic_messages // owned),
            given.queue_bytes if given.topic_bytes == -1 else max(1, given.topic_bytes // owned),
        )

    def acknowledge(self, held: ProcessQueue, offset: int) -> None:
        """Record that all messages before `offset` are consumed, unless the queue is closed or its topic away."""
        if offset >= 0 and not held.closed and held.life.absent_since is None:
            self.offsets.update(held.queue, offset)

    def forget(self, held: ProcessQueue) -> None:
        """Remove a queue and its offset from memory, unless it has been created again."""
        if self.queues.get(held.queue) is held:
            self.offsets.remove(held.queue)
            del self.queues[held.queue]

    async def persist(
        self, queues: Iterable[MessageQueue] | None = None, *, sure: bool = False, all_of: bool = True
    ) -> None:
        """Store the offsets of these queues; None: of all."""
        chosen = list(self.queues) if queues is None else queues
        try:
            await self.offsets.persist(chosen, sure=sure, all_of=all_of)
        except OffsetFileUnwritable as error:
            log.error("%s", error)

    async def announce(self) -> None:
        """Send the current subscriptions to all brokers; later pulls use their versions."""
        sent = [(wanted, wanted.data.sub_version) for wanted in self.subscriptions.values()]
        data = [subscription.data for subscription in self.subscriptions.values()]
        await self.instance.heartbeats.announce_consumer(
            self.group, ConsumeType.CONSUME_PASSIVELY, self.settings, data
        )
        for wanted, version in sent:
            wanted.announced = version
