"""Rebalance of a push consumer: its process queues follow its assignment (Java `RebalancePushImpl`).

A revoked queue stops at once, waits up to RELEASE seconds for its listener, stores its offset and releases
its lock, so that the next owner continues there. A new queue starts when its offset is known and, in an
orderly consumer, when the broker has locked it; otherwise the next round tries again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import trio

from rmqcli.client.errors import ClientError, InvalidRequest, NotSupported, TopicNotFound
from rmqcli.client.functions import for_each, for_each_broker
from rmqcli.client.group.allocation import STRATEGIES, Allocate
from rmqcli.client.group.offset_store import StartOffsets
from rmqcli.client.group.rebalance import Rebalance, Share
from rmqcli.client.push.pop_queue import PopQueue
from rmqcli.client.push.pops import Pops
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.state import GroupState, log
from rmqcli.codec.bodies.offsets import LockBatchRequestBody, UnlockBatchRequestBody
from rmqcli.codec.bodies.pop import QueryAssignmentRequestBody
from rmqcli.codec.message import retry_topic
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.clients import LOCK_BATCH_MQ, UNLOCK_BATCH_MQ
from rmqcli.codec.operations.pop import QUERY_ASSIGNMENT

# Locks of queues at the broker, which give a queue to one orderly consumer of a group (Java
# `RebalanceImpl.lock`).
#
# A broker keeps a lock for 60 s. The client relies on it for 30 s and renews it every 20 s, so the client
# gives it up first.

LOCK_INTERVAL = 20.0  # seconds; rocketmq.client.rebalance.lockInterval
FIRST_LOCK = 1.0
LOCK_TIMEOUT = 1.0


class Locks:
    """The queue locks of one consumer. `held`: queues that a broker may have locked for it."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self.held: set[MessageQueue] = set()

    async def run(self) -> None:
        await trio.sleep(FIRST_LOCK)
        while True:
            await self.renew()
            await trio.sleep(LOCK_INTERVAL)

    async def renew(self) -> None:
        queues = [queue for queue, held in self._state.queues.items() if not held.dropped]
        await for_each_broker(self._renew, queues)

    async def _renew(self, queues: list[MessageQueue]) -> None:
        with contextlib.suppress(ClientError):
            granted = await self._ask(queues)
            for queue in queues:
                held = self._state.queues.get(queue)
                if held is None:
                    continue
                if queue in granted:
                    held.lock(self._state.instance.now_ms())
                else:
                    held.unlock()

    async def lock(self, queue: MessageQueue) -> bool:
        """Return True if the broker has locked the queue for this consumer.

        Returns False also if the broker cannot be reached.
        """
        try:
            granted = queue in await self._ask([queue])
        except ClientError:
            return False
        held = self._state.queues.get(queue)
        if granted and held is not None:
            held.lock(self._state.instance.now_ms())
        return granted

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release locks. If a broker cannot be reached, its lock expires."""
        await for_each_broker(self._unlock, self.held.intersection(queues))

    async def _unlock(self, queues: list[MessageQueue]) -> None:
        with contextlib.suppress(ClientError):
            body = UnlockBatchRequestBody(
                consumer_group=self._state.group, client_id=self._state.instance.client_id, mq_set=queues
            )
            address = await self._master(queues[0])
            await self._state.instance.ask(address, UNLOCK_BATCH_MQ, None, body, timeout=LOCK_TIMEOUT)
            self.held.difference_update(queues)

    async def _ask(self, queues: list[MessageQueue]) -> set[MessageQueue]:
        body = LockBatchRequestBody(
            consumer_group=self._state.group, client_id=self._state.instance.client_id, mq_set=queues
        )
        address = await self._master(queues[0])
        # Recorded before the request, because the broker holds the locks even if its reply is lost.
        self.held.update(queues)
        answer = await self._state.instance.ask(address, LOCK_BATCH_MQ, None, body, timeout=LOCK_TIMEOUT)
        return set(answer.body.lock_ok_mq_set)

    async def _master(self, queue: MessageQueue) -> str:
        return (await self._state.instance.broker_addresses(queue))[0]


RELEASE = 1.0  # seconds, as Java waits for the lock that a listener holds


class PushRebalance(Rebalance):
    """The rebalance of one push consumer; `begin` starts the tasks of a newly assigned queue."""

    def __init__(
        self, state: GroupState, locks: Locks, starts: StartOffsets, begin: Callable[[ProcessQueue], None]
    ) -> None:
        super().__init__(state.instance, state.group, state.settings)
        self._state = state
        self._locks = locks
        self._starts = starts
        self._begin = begin

    async def topics(self) -> Iterable[str] | None:
        """Return the subscribed topics, after releasing queues of others; None while the consumer pauses."""
        state = self._state
        if state.paused:
            return None
        unwanted = [held for queue, held in state.queues.items() if queue.topic not in state.subscriptions]
        if unwanted:
            await self._release(unwanted)
        return list(state.subscriptions)

    async def divided(self, topic: str, share: Share) -> None:
        state, mine = self._state, set(share.mine)
        state.troubles.pop(topic, None)
        for key in [
            one for one in state.troubles if getattr(one, "topic", None) == topic and one not in mine
        ]:
            del state.troubles[key]
        held = [one for queue, one in state.queues.items() if queue.topic == topic and not one.retiring]
        leaving = [one for one in held if one.queue not in mine or self._broken(one)]
        # Nothing has changed: no new version, no heartbeat.
        if not leaving and mine <= state.queues.keys():
            return
        released = await self._release(leaving)
        found = await self._create(sorted(mine - state.queues.keys()))
        if not found and not released:
            return
        state.share_out(topic)
        subscription = state.subscriptions.get(topic)
        if subscription is not None and not state.settings.broadcasting:
            subscription.renew(state.instance.now_ms())
        # Before the first pull: a broker refuses a pull with a version of the subscription it does not know.
        await state.announce()
        for one in found:
            self._begin(one)

    def failed(self, topic: str, error: ClientError) -> None:
        self._state.troubles[topic] = error
        if isinstance(error, TopicNotFound):
            self._starts.note_absent(topic)

    @staticmethod
    def _broken(held: ProcessQueue) -> bool:
        if held.idle_too_long and not held.dropped:
            log.warning("no pull of %s for too long; it is rebuilt", held.queue)
        return held.dropped or held.idle_too_long

    async def _release(self, leaving: Iterable[ProcessQueue]) -> bool:
        """Return True if a queue was released.

        A queue whose orderly listener is busy waits for the next round.
        """
        released: list[ProcessQueue] = []

        async def release(held: ProcessQueue) -> None:
            state, queue = self._state, held.queue
            held.drop()
            with trio.move_on_after(RELEASE):
                await held.wait_quiet()
            # An orderly listener is busy. The lock is kept, so that no other member consumes the queue.
            if held.in_flight and state.needs_locks:
                held.unlock_tries += 1
                return
            held.closed = True
            # The offset comes before the lock: the next owner reads it as soon as it has the lock.
            await state.persist([queue], sure=True)
            if state.needs_locks:
                await self._locks.unlock([queue])
            state.forget(held)
            released.append(held)

        await for_each(release, leaving)
        return bool(released)

    async def _create(self, queues: Iterable[MessageQueue]) -> list[ProcessQueue]:
        """Return new process queues, except for queues that could not be locked or have no known offset."""
        state, created = self._state, list[ProcessQueue]()

        async def create(queue: MessageQueue) -> None:
            if state.needs_locks and not await self._locks.lock(queue):
                return
            # An offset left in memory may be older than the one that the last owner stored.
            state.offsets.remove(queue)
            try:
                held = ProcessQueue(queue, await self._starts.find(queue), state.instance.now_ms())
            except ClientError as error:
                log.info("the offset of %s is not known yet: %s", queue, error)
                state.troubles[queue] = error
                return
            state.troubles.pop(queue, None)
            if state.needs_locks:
                held.lock(state.instance.now_ms())
            state.queues[queue] = held
            created.append(held)

        await for_each(create, queues)
        return sorted(created, key=lambda held: held.queue)


class PopRebalance(PushRebalance):
    """The rebalance of a consumer that pops: a broker allocates its queues (Java `QueryAssignmentProcessor`).

    In mode POP, each member pops all queues of a broker (-1) or a part of them; in mode PULL, each queue has
    one member, which pops it here. Members of both kinds can share a group. The retry topic of the group,
    into which pulled messages are sent back, is pulled: brokers have no mode for it.
    """

    def __init__(
        self,
        state: GroupState,
        locks: Locks,
        starts: StartOffsets,
        begin: Callable[[ProcessQueue], None],
        pops: Pops,
        begin_pops: Callable[[PopQueue], None],
    ) -> None:
        super().__init__(state, locks, starts, begin)
        self._pops = pops
        self._begin_pops = begin_pops
        self._strategy = strategy_name(state.settings.allocate)

    async def topics(self) -> Iterable[str] | None:
        topics = await super().topics()
        if topics is not None:
            popped = self._state.popped
            await self._drop([one for one in popped if one.topic not in self._state.subscriptions])
        return topics

    async def assigned(self, topic: str) -> list[MessageQueue] | None:
        """Return the queues of this member; None if the broker knows none. Raises ClientError."""
        instance = self._instance
        route = await instance.route(topic)
        addresses = [table[min(table)] for table in route.brokers.values() if table]
        if not addresses:
            return None
        body = QueryAssignmentRequestBody(
            topic=topic,
            consumer_group=self._group,
            client_id=instance.client_id,
            strategy_name=self._strategy,
            message_model=self._state.settings.message_model,
        )
        try:
            answer = await instance.ask(instance.random.choice(addresses), QUERY_ASSIGNMENT, None, body)
        except NotSupported as error:
            error.args = (f"{error.fact}; with pop=True, PushConsumer needs brokers of 5.x",)
            raise
        found = answer.body.message_queue_assignments
        return (
            None if found is None else [one.message_queue for one in found if one.message_queue is not None]
        )

    async def check(self, topic: str) -> None:
        """Raise NotSupported if a broker of 4.x cannot allocate queues; other failures are left to the rounds."""
        try:
            await self.assigned(topic)
        except NotSupported:
            raise
        except ClientError as error:
            log.info("the queues of %s are not known yet: %s", topic, error)

    async def _divide(self, topic: str) -> Share | None:
        if topic == retry_topic(self._group):
            return await super()._divide(topic)
        mine = await self.assigned(topic)
        return None if mine is None else Share(mine, mine)

    async def divided(self, topic: str, share: Share) -> None:
        if topic == retry_topic(self._group):
            await super().divided(topic, share)
            return
        state, mine = self._state, set(share.mine)
        state.troubles.pop(topic, None)
        await self._drop([one for one in state.popped if one.topic == topic and one not in mine])
        for queue in sorted(mine - state.popped.keys()):
            state.popped[queue] = held = self._pops.hold(queue)
            self._begin_pops(held)

    async def _drop(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self._state.troubles.pop(queue, None)
            await self._pops.release(self._state.popped.pop(queue))


def strategy_name(allocate: Allocate) -> str:
    """Return the name by which brokers know a strategy. Raises InvalidRequest."""
    for name, strategy in STRATEGIES.items():
        if strategy is allocate:
            return name
    known = ", ".join(strategy.__name__ for strategy in STRATEGIES.values())
    raise InvalidRequest(
        f"pop=True: brokers allocate the queues, by one of {known}; they do not know `allocate`"
    )
