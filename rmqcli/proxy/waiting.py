"""Receives that wait for messages of a group in a topic.

A waiting pop that its client has abandoned would lend messages to no one, so pops do not wait. One request
(NOTIFICATION) asks each broker whether it has messages, regardless of the number of waiting receives. They
are woken one at a time: each once the previous one has popped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio

from rmqcli.client import UNREACHED, ClientError
from rmqcli.client.instance import ClientInstance
from rmqcli.client.pop.lent import ANY_QUEUE, BROKER_CLOCK, lender, polling_full
from rmqcli.client.pull.next_pull import FAILED, IDLE, QUICK
from rmqcli.codec.headers.pop import NotificationRequestHeader
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.pop import NOTIFICATION

POLL_SECONDS = 15.0
MOST_WAITING = 20_000


class Key(NamedTuple):
    """A group and a topic of whose messages receives wait. `order`: the group consumes in order."""

    group: str
    topic: str
    order: bool


class Waiter:
    """A receive that waits. `broker_name` is the broker that has messages, empty before it is known."""

    def __init__(self) -> None:
        self.broker_name = ""
        self._woken = trio.Event()
        self.popped = False
        self.done = trio.Event()

    def wake(self, broker_name: str) -> None:
        self.broker_name = broker_name
        self._woken.set()

    async def wait(self, until: float) -> None:
        """Return once a broker has messages, or at the time `until`."""
        with trio.move_on_at(until):
            await self._woken.wait()


class Waiting:
    """The waiting receives of one proxy."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        # A receive may end in any order, and there may be thousands.
        self._waiters: dict[Key, OrderedDict[Waiter, None]] = {}
        self._asking: set[tuple[Key, str]] = set()
        self._count = 0

    @asynccontextmanager
    async def waiter(self, key: Key, brokers: Iterable[str]) -> AsyncIterator[Waiter | None]:
        """Yield a waiter for messages on these brokers, None if there are too many. Its receive pops in the block,
        if it is woken, and sets `popped`."""
        if self._count >= MOST_WAITING:
            yield None
            return
        waiter = Waiter()
        self._count += 1
        waiters = self._waiters.setdefault(key, OrderedDict())
        waiters[waiter] = None
        for name in brokers:
            if (key, name) not in self._asking:
                self._asking.add((key, name))
                self._instance.nursery.start_soon(self._ask, key, name)
        try:
            yield waiter
        finally:
            self._count -= 1
            waiters.pop(waiter, None)
            # A woken waiter can outlive its dict, and another one can be there by now.
            if not waiters and self._waiters.get(key) is waiters:
                del self._waiters[key]
            waiter.done.set()

    async def _ask(self, key: Key, name: str) -> None:
        """Query one broker as long as receives wait."""
        in_vain = 0
        try:
            while key in self._waiters:
                begun = trio.current_time()
                if not await self._has_messages(key, name):
                    # A broker that does not hold the request would be queried repeatedly.
                    in_vain = in_vain + 1 if trio.current_time() - begun < QUICK else 0
                    await trio.sleep(IDLE[min(in_vain, len(IDLE) - 1)])
                    continue
                waiters = self._waiters.get(key)
                if not waiters:
                    return
                waiter, _ = waiters.popitem(last=False)
                waiter.wake(name)
                await waiter.done.wait()
                in_vain = 0 if waiter.popped else in_vain + 1
                await trio.sleep(IDLE[min(in_vain, len(IDLE) - 1)])
        finally:
            self._asking.discard((key, name))

    async def _has_messages(self, key: Key, name: str) -> bool:
        """Return True once a broker has messages; False after some time. A failure takes some time as well."""
        queue = MessageQueue(key.topic, name, ANY_QUEUE)
        header = NotificationRequestHeader(
            consumer_group=key.group,
            topic=key.topic,
            queue_id=ANY_QUEUE,
            poll_time=round(POLL_SECONDS * 1000),
            born_time=BROKER_CLOCK,
            order=key.order,
        )
        instance = self._instance
        try:
            address = await lender(instance, key.topic, name)
            timeout = instance.timeout + POLL_SECONDS
            answer = (await instance.ask(address, NOTIFICATION, header, None, timeout=timeout)).header
            if answer.polling_full:
                raise polling_full(address)
        except ClientError as error:
            if isinstance(error, UNREACHED):
                instance.routes.doubt(key.topic)
            instance.outages.failed("waiting for", queue, error)
            await trio.sleep(FAILED)
            return False
        instance.outages.works(queue)
        return answer.has_msg
