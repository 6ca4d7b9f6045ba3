"""`PushConsumer`: a group member that receives messages as they arrive (Java `DefaultMQPushConsumer`).

On entry, it sets up subscriptions including the retry topic, offsets and routes, sends heartbeats to all
brokers, and rebalances. On exit, cancelled or not, it starts no more listener calls, gives running calls
`grace` seconds, stores offsets, unlocks queues and unregisters the client; it waits at most LEAVE seconds for
the replies of brokers.

Delivery is at least once: a message may be delivered again after a member left, a broker restarted or a reply
was lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Unpack, overload

import trio

from rmqcli.client.errors import ClientError, InvalidRequest, NoRoute
from rmqcli.client.group.offset_store import StartOffsets, offset_store
from rmqcli.client.group.settings import (
    MessageSelector,
    PushSettings,
    Subscription,
    check_at_broker,
    subscription_of,
    subscriptions,
)
from rmqcli.client.identity import FORBIDDEN_CONSUMER, check_group_name
from rmqcli.client.instance import Client, ClientInstance, InstanceOptions
from rmqcli.client.metrics import ConsumerMetrics
from rmqcli.client.pop.lent import INIT_MODES
from rmqcli.client.produce.producer import Producer
from rmqcli.client.push.concurrent import ConcurrentService
from rmqcli.client.push.orderly import OrderlyService
from rmqcli.client.push.pop_queue import Lane, PopQueue
from rmqcli.client.push.pops import Pops
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.processor import PushProcessor
from rmqcli.client.push.pull_loop import PullLoop
from rmqcli.client.push.rebalance import Locks, PopRebalance, PushRebalance, strategy_name
from rmqcli.client.push.send_back import SendBack
from rmqcli.client.push.state import (
    CONSUMED,
    ConcurrentListener,
    GroupState,
    OrderlyListener,
    callable_listener,
    hooked,
)
from rmqcli.client.push.statistics import SAMPLE_INTERVAL
from rmqcli.client.push.tracing import consume_tracer, traced
from rmqcli.client.trace.dispatcher import Traceable
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.selector import ALL

INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
LEAVE = 3.0
FULL_PERSIST = 12
"""The number of rounds after which unchanged offsets are sent as well.

A broker may have restarted with older ones.
"""

DEFAULTS = PushSettings()
Topics = Mapping[str, str | MessageSelector]


class PushConsumer(Traceable, Client):
    """Consumes topics in a group: `async with PushConsumer("group", {"topic": "tag || tag"}, listener): ...`.

    `listener(messages, context)` is an async or a plain function. With `orderly`, it receives the messages of
    each queue in order and returns an OrderlyResult, otherwise a ConsumeResult. After RECONSUME_LATER, None
    or an exception, the messages are consumed again later. Entering raises InvalidRequest, NoNameServer,
    RequestTimeout, BrokerRefused (for a SQL92 condition that the broker does not accept) or
    OffsetFileDamaged. Later failures of brokers are logged and retried. For more options see PushSettings and
    InstanceOptions.

    With `pop`, brokers lend the messages (POP consumption, for brokers of 5.x and of rmq; otherwise entering
    raises NotSupported) and allocate the queues (Java `setClientRebalance(false)`).

    ```python
    done = trio.Event()

    async def listen(messages, context):
        done.set()
        return ConsumeResult.SUCCESS

    settings = PushSettings(consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with PushConsumer("packers", {"orders": "paid || sent"}, listen, settings=settings):
        await done.wait()
    ```
    """

    @overload
    def __init__(
        self,
        group: str,
        topics: Topics,
        listener: ConcurrentListener,
        *,
        pop: bool = ...,
        settings: PushSettings = ...,
        instance: ClientInstance | None = None,
        **options: Unpack[InstanceOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        group: str,
        topics: Topics,
        listener: OrderlyListener,
        *,
        orderly: bool,
        pop: bool = ...,
        settings: PushSettings = ...,
        instance: ClientInstance | None = None,
        **options: Unpack[InstanceOptions],
    ) -> None: ...

    def __init__(
        self,
        group: str,
        topics: Topics,
        listener: Callable[..., Any],
        *,
        orderly: bool = False,
        pop: bool = False,
        settings: PushSettings = DEFAULTS,
        instance: ClientInstance | None = None,
        **options: Unpack[InstanceOptions],
    ) -> None:
        super().__init__(instance, options)
        core = self.instance
        self.group = group = core.namespace.wrap(group)
        check_group_name(group, FORBIDDEN_CONSUMER)
        if pop:
            _check_pop(settings)
        if settings.broadcasting and instance is None:
            core.keep_name()
        named = {core.namespace.wrap(topic): selector for topic, selector in topics.items()}
        wanted = subscriptions(
            named, group, core.now_ms(), with_retry=not (settings.broadcasting or (pop and orderly))
        )
        offsets = offset_store(core, group, settings)
        self._state = state = GroupState(core, group, settings, orderly, pop, wanted, offsets)
        self._producer = Producer(INNER_PRODUCER, allow_empty=True, instance=core, hook=None)
        call = callable_listener(listener, trio.CapacityLimiter(settings.consumers))
        if core.hook is not None:
            call = hooked(call, core.hook, state)
        self._trace = consume_tracer(core, group, settings.trace, waits=settings.trace_waits)
        if self._trace is not None:
            call = traced(call, self._trace, CONSUMED, settings.consume_timeout)
        self._call = call
        back = SendBack(state, self._producer)
        self._locks = Locks(state)
        self._service = (
            OrderlyService(state, call, back, self._locks)
            if orderly
            else ConcurrentService(state, call, back)
        )
        self._starts = StartOffsets(core, group, offsets, settings)
        self._loops = PullLoop(state, self._service.submit, self._starts)
        self._pops: Pops | None = None
        if pop:
            self._pops = Pops(state, back, self._service.submit, self._begin_lane)
            self._rebalance: PushRebalance = PopRebalance(
                state, self._locks, self._starts, self._begin, self._pops, self._begin_pops
            )
        else:
            self._rebalance = PushRebalance(state, self._locks, self._starts, self._begin)
        state.rebalance_soon = self._rebalance.soon
        self._intake: list[trio.CancelScope] = []
        self._everything = trio.CancelScope()
        self._ended = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._processor: PushProcessor | None = None

    async def _open(self) -> None:
        state = self._state
        if state.started_ms:
            raise InvalidRequest("a push consumer is entered once")
        self.instance.requests.check_free(self.group)
        state.started_ms = self._starts.started_ms = self.instance.now_ms()
        await state.offsets.load()
        for topic, subscription in state.subscriptions.items():
            await self._prepare(topic, subscription)
        await self.instance.nursery.start(self._run)
        self.instance.heartbeats.join_producer(INNER_PRODUCER)
        await state.announce()
        if self._trace is not None:
            await self._trace.start()
        self._in_intake(self._rebalance.run, "rebalance")

    async def _close(self, error: BaseException | None) -> None:
        with trio.CancelScope(shield=True):
            await self._stop()

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are allocated to this consumer, sorted."""
        state = self._state
        held_queues = {**state.queues, **state.popped}
        mine = sorted(queue for queue, held in held_queues.items() if not held.dropped)
        return self.instance.namespace.unwrap_queues(mine)

    def metrics(self) -> ConsumerMetrics:
        """Return the totals of consumed messages, and the number of waiting ones."""
        held, popped = list(self._state.queues.values()), list(self._state.popped.values())
        waiting = sum(queue.count for queue in held) + sum(queue.count for queue in popped)
        lag = sum(max(0, queue.max_offset - queue.consumed) for queue in held)
        lag += sum(queue.rest + queue.count for queue in popped)
        return self._state.statistics.metrics(waiting, lag, self.instance.pool.reconnects)

    def troubles(self, topic: str) -> dict[str, ClientError]:
        """Return the last error of a topic and of each of its failing queues, by name of topic or queue."""
        wrapped, unwrap = self.instance.namespace.wrap(topic), self.instance.namespace.unwrap_queue
        return {
            topic if isinstance(key, str) else str(unwrap(key)): error
            for key, error in self._state.troubles.items()
            if wrapped in (key, getattr(key, "topic", None))
        }

    async def divided(self) -> None:
        """Wait for the end of the first rebalance, successful or not."""
        await self._rebalance.begun.wait()

    async def subscribe(self, topic: str, selector: str | MessageSelector = ALL) -> None:
        """Subscribe to a topic, or change its filter.

        Brokers know about it when this returns; queues follow later.

        Raises InvalidRequest, NoNameServer, BrokerRefused for a SQL92 condition that the broker does not
        accept.
        """
        topic = self.instance.namespace.wrap(topic)
        subscription = subscription_of(topic, selector, self.instance.now_ms())
        await self._prepare(topic, subscription)
        self._state.subscriptions[topic] = subscription
        await self._state.announce()
        self._state.rebalance_soon()

    async def unsubscribe(self, topic: str) -> None:
        """Release the queues of a topic and store their offsets."""
        if self._state.subscriptions.pop(self.instance.namespace.wrap(topic), None) is not None:
            await self._state.announce()
            self._state.rebalance_soon()

    def pause(self) -> None:
        """Stop pulls until `resume`. Messages already pulled are still consumed."""
        self._state.paused = True

    def resume(self) -> None:
        self._state.paused = False
        self._state.rebalance_soon()

    async def _prepare(self, topic: str, subscription: Subscription) -> None:
        """Check a subscription.

        A missing topic is not an error: it may be created later, and every rebalance reads its route.
        """
        with contextlib.suppress(NoRoute):
            await self.instance.route(topic)
            if isinstance(self._rebalance, PopRebalance):
                await self._rebalance.check(topic)
            if subscription.selector.is_sql:
                await check_at_broker(self.instance, self.group, subscription.data)

    async def _run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            with self._everything:
                async with trio.open_nursery() as self._nursery:
                    self._processor = PushProcessor(self._state, self._call, self._nursery)
                    self._processor.open()
                    if isinstance(self._service, ConcurrentService):
                        self._nursery.start_soon(self._service.run)
                    self._nursery.start_soon(self._persist_for_ever)
                    self._nursery.start_soon(self._sample_for_ever)
                    if self._pops is not None:
                        self._nursery.start_soon(self._pops.run)
                    if self._state.needs_locks:
                        self._in_intake(self._locks.run, "queue locks")
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self._ended.set()

    def _in_intake(self, function: Callable[..., Any], name: str) -> None:
        """Start a task that takes in messages. These tasks are cancelled first on exit."""

        scope = trio.CancelScope()
        self._intake.append(scope)

        async def run() -> None:
            with scope:
                await function()

        if self._nursery is not None:
            self._nursery.start_soon(run, name=f"{name} of {self.group}")

    def _begin(self, held: ProcessQueue) -> None:
        """Start the tasks of a new queue. Its scope cancels the pulls, but not a call of the listener."""
        if self._nursery is None or self._state.stopping:
            return
        self._nursery.start_soon(self._loops.run, held, name=f"pulls of {held.queue}")
        if isinstance(self._service, OrderlyService):
            self._nursery.start_soon(self._service.consume_queue, held, name=f"order of {held.queue}")

    def _begin_pops(self, held: PopQueue) -> None:
        if self._nursery is not None and self._pops is not None and not self._state.stopping:
            self._nursery.start_soon(self._pops.pop_queue, held, name=f"pops of {held.queue}")

    def _begin_lane(self, lane: Lane) -> None:
        if self._nursery is not None and isinstance(self._service, OrderlyService):
            self._nursery.start_soon(self._service.consume_queue, lane, name=f"order of {lane.queue}")

    async def _persist_for_ever(self) -> None:
        turn = 0
        while True:
            await trio.sleep(self._state.settings.persist_interval)
            turn += 1
            await self._state.persist(all_of=turn % FULL_PERSIST == 0)

    async def _sample_for_ever(self) -> None:
        while True:
            self._state.statistics.sample(trio.current_time())
            await trio.sleep(SAMPLE_INTERVAL)

    async def _stop(self) -> None:
        state = self._state
        state.stopping = True
        # A failed instance has no connections on which to unregister.
        failed = self._ended.is_set()
        # Pulls end first, so that no further messages arrive while running listeners get their grace.
        for scope in (*self._intake, *(held.scope for held in state.queues.values())):
            scope.cancel()
        if self._nursery is not None:
            if self._pops is not None and not failed:
                # A broker then ends waiting pops, which would take the returned messages.
                await self.instance.heartbeats.leave_consumer(self.group)
                for popped in state.popped.values():
                    self._nursery.start_soon(self._pops.release, popped)
            with trio.move_on_after(state.settings.grace):
                for held in (*state.queues.values(), *state.popped.values()):
                    await held.wait_quiet()
            self._everything.cancel()
            await self._ended.wait()
            if self._processor is not None:
                self._processor.close()
            if not failed:
                await self._leave()

    async def _leave(self) -> None:
        if self._trace is not None:
            await self._trace.close()
        with trio.move_on_after(LEAVE):
            # Offsets come before locks: the next owner reads the offset as soon as it has the lock.
            await self._state.persist(sure=True)
            await self._locks.unlock(self._locks.held)
            if self._pops is not None:
                await self._pops.finish()
        await self.instance.heartbeats.leave_consumer(self.group)
        await self.instance.heartbeats.leave_producer(INNER_PRODUCER)


def _check_pop(settings: PushSettings) -> None:
    """Raise InvalidRequest for settings that cannot be combined with pop."""
    if settings.broadcasting:
        raise InvalidRequest(
            "pop=True and broadcasting cannot be combined: popped messages are shared by the members of a group"
        )
    if settings.consume_from not in INIT_MODES:
        raise InvalidRequest(
            "with pop=True, a group begins at the first or at the last offset, not at a time"
        )
    strategy_name(settings.allocate)
