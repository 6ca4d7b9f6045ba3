"""Which queues are ours: every 20 s, and when the broker says that members came or went (Java `RebalanceImpl`).

A queue that is no longer ours stops at once, waits up to RELEASE seconds for its listener, stores its offset, gives its lock
back; the next owner begins where we ended. A queue that became ours is begun when its offset is known, and in an orderly
consumer when the broker has locked it for us; else the next round tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from codec.bodies.base import decode_body
from codec.bodies.connections import GetConsumerListByGroupResponseBody
from codec.codes import RequestCode
from codec.errors import CodecError
from codec.headers.clients import GetConsumerListByGroupRequestHeader
from codec.message_queue import MessageQueue
from rmqcli.client.errors import ClientError
from rmqcli.client.push.locks import Locks
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.pull_loop import StartOffsets
from rmqcli.client.push.state import GroupState, log

__all__ = ["Rebalancer"]

RELEASE = 1.0


class Rebalancer:
    """`begin` starts the tasks of a queue that became ours."""

    def __init__(
        self, state: GroupState, locks: Locks, starts: StartOffsets, begin: Callable[[ProcessQueue], None]
    ) -> None:
        self._state = state
        self._locks = locks
        self._starts = starts
        self._begin = begin
        self._members: dict[frozenset[str], list[str]] = {}
        self.begun = trio.Event()
        """After the first round."""

    async def run(self) -> None:
        while True:
            self._state.wake = trio.Event()
            if not self._state.paused:
                await self.once()
                self.begun.set()
            with trio.move_on_after(self._state.settings.rebalance_interval):
                await self._state.wake.wait()

    async def once(self) -> None:
        """One round over all topics; a topic that nobody can say anything about stays as it is."""
        state = self._state
        unwanted = [held for queue, held in state.queues.items() if queue.topic not in state.subscriptions]
        if unwanted:
            await self._release(unwanted)
        self._members.clear()
        for topic in list(state.subscriptions):
            try:
                mine = await self._mine(topic)
            except ClientError as error:
                log.info("rebalancing %s: %s", topic, error)
                state.troubles[topic] = error
                continue
            state.troubles.pop(topic, None)
            if mine is not None:
                await self._apply(topic, mine)

    async def _mine(self, topic: str) -> set[MessageQueue] | None:
        """The queues that are ours; None when that cannot be said."""
        state = self._state
        queues = sorted((await state.instance.route(topic)).subscribe)
        if state.settings.broadcasting:
            return set(queues)
        clients = await self._clients(topic)
        if not clients:
            return None
        me = state.instance.client_id
        if me not in clients:
            log.warning("%s is not in the group %s that the broker knows", me, state.group)
            return set()
        return self._allocated(queues, sorted(clients))

    def _allocated(self, queues: list[MessageQueue], clients: list[str]) -> set[MessageQueue] | None:
        state = self._state
        try:
            return set(state.settings.allocate(state.instance.client_id, queues, clients))
        except Exception:  # a strategy may be the application's own: as long as it fails, all stays as it is
            log.exception("the queues of %s cannot be allocated", state.group)
            return None

    async def _clients(self, topic: str) -> list[str]:
        state = self._state
        brokers = (await state.instance.route(topic)).brokers
        addresses = [table[min(table)] for table in brokers.values() if table]
        if not addresses:
            return []
        # The brokers of several topics are asked once a round: all topics are divided by the same list then
        asked = frozenset(addresses)
        if asked not in self._members:
            self._members[asked] = await self._ask_members(state.instance.random.choice(addresses))
        return self._members[asked]

    async def _ask_members(self, address: str) -> list[str]:
        state = self._state
        header = GetConsumerListByGroupRequestHeader(consumer_group=state.group)
        reply = await state.instance.call(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        try:
            return decode_body(GetConsumerListByGroupResponseBody, reply.body).consumer_id_list
        except CodecError:
            return []

    async def _apply(self, topic: str, mine: set[MessageQueue]) -> None:
        state = self._state
        for place in [
            one for one in state.troubles if getattr(one, "topic", None) == topic and one not in mine
        ]:
            del state.troubles[place]
        held = [one for queue, one in state.queues.items() if queue.topic == topic and not one.retiring]
        leaving = [one for one in held if one.queue not in mine or self._broken(one)]
        if not leaving and mine <= state.queues.keys():
            return
        released = await self._release(leaving)
        found = await self._prepare(sorted(mine - state.queues.keys()))
        if not found and not released:
            return
        state.share_out(topic)
        subscription = state.subscriptions.get(topic)
        if subscription is not None and not state.settings.broadcasting:
            subscription.renew(state.instance.now_ms())
        await state.announce()
        for one in found:
            self._begin(one)

    @staticmethod
    def _broken(held: ProcessQueue) -> bool:
        if held.idle_too_long and not held.dropped:
            log.warning("no pull of %s for too long; it is rebuilt", held.queue)
        return held.dropped or held.idle_too_long

    async def _release(self, leaving: Iterable[ProcessQueue]) -> int:
        released = 0

        async def one(held: ProcessQueue) -> None:
            nonlocal released
            released += await self.release(held, RELEASE)

        async with trio.open_nursery() as nursery:
            for held in leaving:
                nursery.start_soon(one, held)
        return released

    async def release(self, held: ProcessQueue, timeout: float) -> bool:
        """Gives a queue up; False when an orderly listener is still busy with it: then the next round tries again."""
        state, queue = self._state, held.queue
        held.drop()
        if not await held.wait_quiet(timeout) and state.needs_locks:
            held.unlock_tries += 1
            return False
        held.closed = True
        await state.persist([queue], sure=True)
        if state.needs_locks:
            await self._locks.unlock([queue])
        if state.queues.get(queue) is held:
            state.offsets.remove(queue)
            del state.queues[queue]
        return True

    async def _prepare(self, queues: Iterable[MessageQueue]) -> list[ProcessQueue]:
        found: list[ProcessQueue] = []

        async def one(queue: MessageQueue) -> None:
            held = await self._new(queue)
            if held is not None:
                found.append(held)

        async with trio.open_nursery() as nursery:
            for queue in queues:
                nursery.start_soon(one, queue)
        return sorted(found, key=lambda held: held.queue)

    async def _new(self, queue: MessageQueue) -> ProcessQueue | None:
        state = self._state
        if state.needs_locks and not await self._locks.lock(queue):
            return None
        state.offsets.remove(queue)
        try:
            held = ProcessQueue(queue, await self._starts.find(queue), state.instance.now_ms())
        except ClientError as error:
            log.info("the offset of %s is not known yet: %s", queue, error)
            state.troubles[queue] = error
            return None
        state.troubles.pop(queue, None)
        if state.needs_locks:
            held.lock(state.instance.now_ms())
        state.queues[queue] = held
        return held
