"""The state shared by the parts of one push consumer: settings, subscriptions, queues, offsets."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import trio

from rmqcli.client.errors import ClientError
from rmqcli.client.functions import is_async
from rmqcli.client.group.offset_store import OffsetFileUnwritable, OffsetStore
from rmqcli.client.group.settings import PushSettings, Subscription
from rmqcli.client.hooks import ClientHook, Delivery
from rmqcli.client.instance import ClientInstance
from rmqcli.client.push.pop_queue import PopQueue
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.statistics import Statistics
from rmqcli.codec.bodies.heartbeat import ConsumeType
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue

log = logging.getLogger("rmqcli.client.push")


class Thresholds(NamedTuple):
    """The limits of the cache of one queue: messages, bytes."""

    messages: int
    size: int


@dataclass(slots=True)
class GroupState:
    """The state of one consumer. `paused` suspends pulls; `stopping` prevents further listener calls.

    `queues` are those that it pulls from, `popped` those that it pops (-1: all queues of a broker).
    `troubles`: the last errors of topics whose queues could not be allocated, and of queues that could not be
    started or pulled.
    """

    instance: ClientInstance
    group: str
    settings: PushSettings
    orderly: bool
    pops: bool
    subscriptions: dict[str, Subscription]
    offsets: OffsetStore
    started_ms: int = 0
    paused: bool = False
    stopping: bool = False
    queues: dict[MessageQueue, ProcessQueue] = field(default_factory=dict)
    popped: dict[MessageQueue, PopQueue] = field(default_factory=dict)
    thresholds: dict[str, Thresholds] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=Statistics)
    troubles: dict[str | MessageQueue, ClientError] = field(default_factory=dict)
    rebalance_soon: Callable[[], None] = lambda: None

    @property
    def needs_locks(self) -> bool:
        return self.orderly and not (self.settings.broadcasting or self.pops)

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
        """Record that all messages before `offset` are consumed.

        Does nothing if the queue is closed or its topic is missing.
        """
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
        """Store the offsets of these queues, or of all queues."""
        chosen = list(self.queues) if queues is None else queues
        try:
            await self.offsets.persist(chosen, sure=sure, all_of=all_of)
        except OffsetFileUnwritable as error:
            log.error("%s", error)

    async def announce(self) -> None:
        """Send the current subscriptions to all brokers. Later pulls use their versions."""
        # The versions are noted before the sends, because a rebalance may renew them meanwhile.
        sent = [(wanted, wanted.data.sub_version) for wanted in self.subscriptions.values()]
        data = [subscription.data for subscription in self.subscriptions.values()]
        await self.instance.heartbeats.announce_consumer(
            self.group, ConsumeType.CONSUME_PASSIVELY, self.settings, data
        )
        for wanted, version in sent:
            wanted.announced = version


# Listeners of push consumers, their contexts and results.
#
# A listener receives a list of messages of one queue and a context. An async function runs in the tasks of the
# consumer, a plain one in worker threads, at most `consumers` at once. An exception is logged, and the messages
# are consumed again later.


class ConsumeResult(Enum):
    """Java `ConsumeConcurrentlyStatus`.

    ```python
    async def listen(messages, context):
        return ConsumeResult.SUCCESS if messages[0].body else ConsumeResult.RECONSUME_LATER

    async with PushConsumer("packers", {"orders": "*"}, listen):
        ...
    ```
    """

    SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class OrderlyResult(Enum):
    """Java `ConsumeOrderlyStatus`. COMMIT and ROLLBACK: for contexts with `auto_commit` set to False.

    ```python
    async def listen(messages, context):
        context.suspend_time = 0.5
        return OrderlyResult.SUCCESS if messages[0].body else OrderlyResult.SUSPEND

    async with PushConsumer("readers", {"orders": "*"}, listen, orderly=True):
        ...
    ```
    """

    SUCCESS = "SUCCESS"
    SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


class ConsumeContext:
    """The context of one call.

    `ack_index`: index of the last message that succeeded, if not all did. `delay_level` of the retry: with 0
    the broker decides (3 + times consumed), with -1 the message becomes a dead letter at once.

    ```python
    async def listen(messages, context):
        context.ack_index = 0  # the first message succeeded; the others are redelivered
        return ConsumeResult.SUCCESS

    async with PushConsumer("packers", {"orders": "*"}, listen, settings=PushSettings(batch_size=10)):
        ...
    ```
    """

    __slots__ = ("ack_index", "delay_level", "queue")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.delay_level = 0
        self.ack_index = sys.maxsize


class OrderlyContext:
    """The context of one call.

    `suspend_time`: seconds until the queue continues after SUSPEND (None: the setting).

    ```python
    async def listen(messages, context):
        context.auto_commit = False
        return OrderlyResult.COMMIT if messages[-1].tags == "last" else OrderlyResult.SUCCESS

    async with PushConsumer("readers", {"orders": "*"}, listen, orderly=True):
        ...
    ```
    """

    __slots__ = ("auto_commit", "queue", "suspend_time")

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.auto_commit = True
        self.suspend_time: float | None = None


ConcurrentListener = Callable[
    [list[MessageExt], ConsumeContext], ConsumeResult | Awaitable[ConsumeResult | None] | None
]
OrderlyListener = Callable[
    [list[MessageExt], OrderlyContext], OrderlyResult | Awaitable[OrderlyResult | None] | None
]
Call = Callable[[list[MessageExt], Any], Awaitable[Any]]
NO_RESULT = "the listener returned no %s for %s; it is consumed again later"
CONSUMED = frozenset({ConsumeResult.SUCCESS, OrderlyResult.SUCCESS, OrderlyResult.COMMIT})


def callable_listener(listener: Callable[..., Any], limiter: trio.CapacityLimiter) -> Call:
    """Return the listener as an async function."""
    if is_async(listener):
        return listener
    # The consumer waits `grace` seconds for a thread; one that takes longer must not delay its end.
    return partial(trio.to_thread.run_sync, listener, abandon_on_cancel=True, limiter=limiter)


def hooked(call: Call, hook: ClientHook, state: GroupState) -> Call:
    """Return a listener that `hook` observes."""
    space = state.instance.namespace
    group, client_id = space.unwrap(state.group), state.instance.client_id

    async def listener(messages: list[MessageExt], context: Any) -> Any:
        broadcasting = state.settings.broadcasting
        delivery = Delivery(group, space.name, client_id, context.queue, messages, broadcasting)
        with hook.process(delivery):
            delivery.result = result = await call(messages, context)
            accepted = getattr(context, "ack_index", sys.maxsize) + 1 if result in CONSUMED else 0
            delivery.failed = accepted < len(messages)
        return result

    return listener
