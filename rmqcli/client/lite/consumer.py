"""`LitePullConsumer`: background pulls for an application that polls (Java `DefaultLitePullConsumer`).

Use either `subscribe` (the group shares the queues of topics) or `assign` (exactly these queues), not both.
Messages returned by `poll` count as consumed when `poll` is called again, or when the block is left without
an exception. Only consumed messages are committed automatically. Delivery is at least once.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Unpack

import trio

from rmqcli.client.errors import ClientError, InvalidRequest
from rmqcli.client.group.offset_store import OffsetFileUnwritable, StartOffsets, offset_store
from rmqcli.client.group.processor import ConsumerProcessor
from rmqcli.client.group.rebalance import PullRebalance
from rmqcli.client.group.running_info import lite_info
from rmqcli.client.group.settings import (
    LiteSettings,
    MessageSelector,
    Subscription,
    check_at_broker,
    subscription_of,
)
from rmqcli.client.hooks import Delivery
from rmqcli.client.instance import Client, ClientInstance, InstanceOptions
from rmqcli.client.lite.pulling import AssignedQueue, Pulling, consumed_offsets
from rmqcli.client.metrics import ConsumerMetrics
from rmqcli.client.pull.consumer import PullConsumer, QueuesChanged, notify
from rmqcli.client.push.tracing import consume_tracer
from rmqcli.codec.bodies.heartbeat import ConsumeType, SubscriptionData
from rmqcli.codec.bodies.running import ConsumerRunningInfo
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue

log = logging.getLogger("rmqcli.client.lite")
LEAVE = 3.0  # seconds to store offsets when the consumer is closed
DEFAULTS = LiteSettings()
EVERYTHING: Mapping[str, str | MessageSelector] = MappingProxyType({})


class LitePullConsumer(Client):
    """Pulls ahead, for one task that calls `poll` after `await consumer.subscribe("topic")`.

    For more options see LiteSettings and InstanceOptions.

    ```python
    settings = LiteSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with LitePullConsumer("scanners", settings=settings) as consumer:
        await consumer.subscribe("orders")
        assert [message.body for message in await consumer.poll()] == [b"hello"]
    ```
    """

    def __init__(
        self,
        group: str,
        *,
        settings: LiteSettings = DEFAULTS,
        instance: ClientInstance | None = None,
        **options: Unpack[InstanceOptions],
    ) -> None:
        super().__init__(instance, options)
        core = self.instance
        if settings.broadcasting and instance is None:
            core.keep_name()
        self._settings = settings
        self._namespace = core.namespace
        self._pull = PullConsumer(group, instance=core)
        self.group = self._pull.group
        self._offsets = offset_store(core, self.group, settings)
        self._held: dict[MessageQueue, AssignedQueue] = {}
        self._selectors: dict[str, MessageSelector] = {}
        self._listeners: dict[str, QueuesChanged | None] = {}
        self._rebalance = PullRebalance(core, self.group, settings, self._on_change)
        starts = StartOffsets(core, self.group, self._offsets, settings)
        self._pulling = Pulling(self._pull, settings, starts, self._held, self._selectors, self._has_arrived)
        offsets = partial(consumed_offsets, self._held)
        self._processor = ConsumerProcessor(
            core, self.group, self._rebalance.soon, offsets, self._running_info
        )
        self._created_ms = core.now_ms()
        self._polls = self._polled = 0
        self._poll_seconds = 0.0
        self._assigned = False
        self._arrival = trio.Event()
        self._last: AssignedQueue | None = None
        self._next_commit = math.inf
        self._turn: list[AssignedQueue] = []
        self._watches: list[trio.CancelScope] = []
        self._tracer = consume_tracer(core, self.group, settings.trace, waits=settings.trace_waits)

    async def _open(self) -> None:
        await self._offsets.load()
        self._processor.open()
        if self._tracer is not None:
            await self._tracer.start()
        if self._settings.auto_commit:
            self._next_commit = trio.current_time() + self._settings.commit_interval

    async def _close(self, error: BaseException | None) -> None:
        if not self._processor.is_open:
            return  # `_open` failed, perhaps because another consumer of the group is registered: it stays so
        for watch in self._watches:
            watch.cancel()
        self._rebalance.stop()
        self._processor.close()
        queues = list(self._held)
        if error is None:
            self._acknowledge()
        for held in self._held.values():
            held.drop()
        with trio.move_on_after(LEAVE, shield=True):
            if self._settings.auto_commit:
                self._remember(queues)
            await self._persist(queues, sure=True)
        if self._tracer is not None:
            await self._tracer.close()
        await self.instance.heartbeats.leave_consumer(self.group)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are allocated or assigned to this consumer, sorted."""
        return self._namespace.unwrap_queues(sorted(self._held))

    def metrics(self) -> ConsumerMetrics:
        """Return the totals of polled messages, and the number of waiting ones."""
        held = list(self._held.values())
        lag = sum(max(0, queue.max_offset - (queue.consumed or 0)) for queue in held)
        waiting = sum(queue.count for queue in held)
        reconnects = self.instance.pool.reconnects
        return ConsumerMetrics(self._polls, self._poll_seconds, self._polled, 0, waiting, lag, reconnects)

    async def subscribe(
        self, topic: str, selector: str | MessageSelector = "*", *, on_change: QueuesChanged | None = None
    ) -> None:
        """Subscribe to a topic; `selector` is a tag expression or MessageSelector.by_sql.

        `on_change` is called with all queues of the topic and those of this member whenever they change.
        Raises InvalidRequest after `assign`, NoRoute for an unknown topic, BrokerRefused for a SQL92
        condition that the broker does not accept.
        """
        if self._assigned:
            raise InvalidRequest("Subscribe and assign are mutually exclusive.")
        topic = self._namespace.wrap(topic)
        subscription = await self._checked(topic, selector)
        if self._selectors.get(topic, subscription.selector) != subscription.selector:
            self._begin_again(topic)
        self._selectors[topic] = subscription.selector
        self._listeners[topic] = on_change
        await self._announce()
        self._rebalance.names.add(topic)
        self._rebalance.start()

    async def unsubscribe(self, topic: str) -> None:
        """Release the queues of `topic`."""
        topic = self._namespace.wrap(topic)
        self._rebalance.names.discard(topic)
        self._rebalance.forget(topic)
        self._selectors.pop(topic, None)
        self._listeners.pop(topic, None)
        await self._own(topic, ())
        await self._announce()

    async def assign(
        self,
        queues: Iterable[MessageQueue],
        selectors: Mapping[str, str | MessageSelector] = EVERYTHING,
    ) -> None:
        """Read exactly these queues, filtered by `selectors` (by topic), in place of an earlier assignment.

        Raises InvalidRequest after `subscribe`, BrokerRefused for a SQL92 condition that the broker does not
        accept.
        """
        if self._rebalance.names:
            raise InvalidRequest("Subscribe and assign are mutually exclusive.")
        wanted = {self._namespace.wrap_queue(queue) for queue in queues}
        chosen = {self._namespace.wrap(topic): selector for topic, selector in selectors.items()}
        known = {topic: (await self._checked(topic, one)).selector for topic, one in chosen.items()}
        self._assigned = True
        before = dict(self._selectors)
        self._selectors.clear()
        self._selectors.update(known)
        await self._announce()
        for topic in sorted({queue.topic for queue in [*self._held, *wanted]}):
            if before.get(topic) != known.get(topic):
                self._begin_again(topic)
            await self._own(topic, [queue for queue in wanted if queue.topic == topic])

    async def _checked(self, topic: str, selector: str | MessageSelector) -> Subscription:
        subscription = subscription_of(topic, selector, self.instance.now_ms())
        await self.instance.route(topic)
        if subscription.selector.is_sql:
            await check_at_broker(self.instance, self.group, subscription.data)
        return subscription

    def _begin_again(self, topic: str) -> None:
        """Discard the cached messages of the topic, which an earlier filter selected."""
        for held in self._held.values():
            if held.queue.topic == topic:
                held.refetch()

    async def poll(self, timeout: float | None = None) -> list[MessageExt]:
        """Return the next messages, all of one queue and in its order.

        Returns an empty list after `timeout` seconds (default 5) without messages.

        Messages of earlier calls count as consumed. They are committed once the commit interval has passed.
        """
        self._acknowledge()
        if self._tracer is not None:
            await self._tracer.room()
        began = trio.current_time()
        deadline = began + (self._settings.poll_timeout if timeout is None else timeout)
        # Lets other tasks run, and delivers cancellation, even if messages wait for every poll.
        await trio.lowlevel.checkpoint()
        while True:
            if trio.current_time() >= self._next_commit:
                await self._commit_by_itself()
            batch = self._take()
            if batch or trio.current_time() >= deadline:
                if batch:
                    self._polls += 1
                    self._polled += len(batch)
                    self._poll_seconds += trio.current_time() - began
                self._observe(batch, began)
                return batch
            with trio.move_on_at(min(deadline, self._next_commit)):
                await self._arrival.wait()

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at `offset`.

        Raises InvalidRequest outside the queue, or for a queue that is not assigned.
        """
        self._ours(queue)
        low, high = await self._pull.min_offset(queue), await self._pull.max_offset(queue)
        if not low <= offset <= high:
            raise InvalidRequest(
                f"Seek offset illegal, seek offset = {offset}, min offset = {low}, max offset = {high}"
            )
        self._ours(queue).seek(offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message of the queue."""
        await self._seek_to(queue, self._pull.min_offset)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue with messages sent from now on."""
        await self._seek_to(queue, self._pull.max_offset)

    async def _seek_to(self, queue: MessageQueue, find: Callable[[MessageQueue], Awaitable[int]]) -> None:
        self._ours(queue)
        offset = await find(queue)
        self._ours(queue).seek(offset)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Suspend pulls and polls of these queues until `resume`, or until a rebalance revokes them.

        Raises InvalidRequest, without pausing any, if a queue is not assigned.
        """
        for held in [self._ours(queue) for queue in queues]:
            held.pause()

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        for held in [self._ours(queue) for queue in queues]:
            held.resume()
        self._has_arrived()

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store these offsets, by default those after all polled messages.

        Raises ClientError if one fails.
        """
        if offsets is None:
            offsets = {q: held.consumed for q, held in self._held.items() if held.consumed is not None}
        offsets = self._namespace.wrap_queues(offsets)
        for queue, offset in offsets.items():
            self._offsets.update(queue, offset, increase_only=False)
            if not self._settings.broadcasting:
                await self._pull.commit(queue, offset)
        if self._settings.broadcasting:
            await self._offsets.persist(offsets)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the stored next offset of the group, or None."""
        if self._settings.broadcasting:
            return self._offsets.memory(self._namespace.wrap_queue(queue))
        return await self._pull.committed(queue)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (epoch) or later, or the end."""
        return await self._pull.search_offset(queue, timestamp_ms)

    async def message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic. Raises NoRoute if it is unknown."""
        return await self._pull.message_queues(topic)

    async def watch_queues(self, topic: str) -> trio.MemoryReceiveChannel[list[MessageQueue]]:
        """Return a channel that receives the readable queues of a topic when they change.

        They are read every `queue_check_interval` seconds, until the channel has no receiver or the consumer
        is closed (Java `registerTopicMessageQueueChangeListener`).
        """
        known = await self.message_queues(topic)
        sender, receiver = trio.open_memory_channel[list[MessageQueue]](1)

        async def run() -> None:
            nonlocal known
            with contextlib.suppress(trio.BrokenResourceError):
                async with sender:
                    while sender.statistics().open_receive_channels:
                        await trio.sleep(self._settings.queue_check_interval)
                        with contextlib.suppress(ClientError):
                            await self.instance.routes.read(
                                self._namespace.wrap(topic), self.instance.timeout
                            )
                            queues = await self.message_queues(topic)
                            if queues != known:
                                known = queues
                                await sender.send(queues)

        self._watches.append(self.instance.start(run, f"queues of {topic}"))
        return receiver

    def _ours(self, queue: MessageQueue) -> AssignedQueue:
        held = self._held.get(self._namespace.wrap_queue(queue))
        if held is None:
            raise InvalidRequest(f"The message queue is not in assigned list, may be rebalancing: {queue}")
        return held

    def _acknowledge(self) -> None:
        """Count the messages of the last poll as consumed."""
        if self._last is not None:
            self._last.done = self._last.consumed
            self._last = None

    def _take(self) -> list[MessageExt]:
        for held in self._turn:
            if held.batches and not held.paused:
                batch = held.take()
                self._turn.remove(held)
                self._turn.append(held)
                self._last = held
                if self._tracer is not None:
                    self._tracer.after(self._tracer.before(batch), True)
                return batch
        # Only after a look at all queues: what arrives from now on sets the new event.
        self._arrival = trio.Event()
        return []

    def _observe(self, batch: list[MessageExt], began: float) -> None:
        core = self.instance
        if core.hook is None or self._last is None or not batch:
            return
        space, queue = self._namespace, self._namespace.unwrap_queue(self._last.queue)
        broadcasting = self._settings.broadcasting
        group = space.unwrap(self.group)
        delivery = Delivery(group, space.name, core.client_id, queue, batch, broadcasting)
        core.hook.receive(delivery, trio.current_time() - began)

    def _has_arrived(self) -> None:
        self._arrival.set()

    async def _commit_by_itself(self) -> None:
        self._next_commit = trio.current_time() + self._settings.commit_interval
        self._remember(self._held)
        await self._persist(list(self._held))

    async def _persist(self, queues: Collection[MessageQueue], *, sure: bool = False) -> None:
        try:
            await self._offsets.persist(queues, sure=sure, all_of=False)
        except OffsetFileUnwritable as error:
            log.error("%s", error)

    def _remember(self, queues: Collection[MessageQueue]) -> None:
        """Put the offsets of consumed messages into the offset store."""
        for queue in queues:
            held = self._held[queue]
            done = held.done if held.life.absent_since is None else None
            if done is not None:
                self._offsets.update(queue, done, increase_only=False)

    async def _on_change(
        self, topic: str, queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        if topic not in self._selectors:
            return  # unsubscribed during the rebalance
        await self._own(topic, mine)
        await notify(self._listeners.get(topic), self._namespace, topic, queues, mine)

    async def _own(self, topic: str, mine: Collection[MessageQueue]) -> None:
        """Release and add queues so that the queues of `topic` are `mine`."""
        leaving = [queue for queue in self._held if queue.topic == topic and queue not in mine]
        if self._settings.auto_commit:
            self._remember(leaving)
        for queue in leaving:
            held = self._held.pop(queue)
            held.drop()
            self._turn.remove(held)
            # The next poll must not acknowledge messages of a queue that was released.
            if self._last is held:
                self._last = None
        if leaving:
            await self._persist(leaving, sure=True)
        for queue in leaving:
            self._offsets.remove(queue)
        for queue in sorted(set(mine) - self._held.keys()):
            self._begin(queue)

    def _begin(self, queue: MessageQueue) -> None:
        held = self._held[queue] = AssignedQueue(queue)
        self._turn.append(held)
        pulls = partial(self._pulling.run, held)
        self.instance.start(pulls, f"pulls of {queue.topic} {queue.broker_name} {queue.queue_id}")

    async def _announce(self) -> None:
        await self.instance.heartbeats.announce_consumer(
            self.group, ConsumeType.CONSUME_ACTIVELY, self._settings, self._subscriptions()
        )

    def _running_info(self, stacks: bool) -> ConsumerRunningInfo:
        return lite_info(
            self.instance, self.group, self._created_ms, self._subscriptions(), self._settings, self._held
        )

    def _subscriptions(self) -> list[SubscriptionData]:
        now = self.instance.now_ms()
        subscribed = {} if self._assigned else self._selectors
        return [subscription_of(topic, one, now).data for topic, one in subscribed.items()]
