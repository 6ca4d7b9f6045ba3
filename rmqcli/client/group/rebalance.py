"""Rebalance: the queues assigned to this member in its topics (Java `RebalanceImpl`).

A round runs every 20 s, at once when a broker reports that members joined or left (40), and within a second
after a missing topic was created. Every member divides the same queues among the same clients, so the client
list of a set of brokers is read only once per round.
"""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import trio

from rmqcli.client.errors import ClientError, NoRoute
from rmqcli.client.group.settings import ConsumerSettings
from rmqcli.client.instance import ClientInstance
from rmqcli.codec.headers.clients import GetConsumerListByGroupRequestHeader
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.clients import GET_CONSUMER_LIST_BY_GROUP

MISSING_INTERVAL = 1.0  # seconds between two checks for a topic that does not exist yet

log = logging.getLogger("rmqcli.client.group.rebalance")


class Share(NamedTuple):
    """All queues of a topic, sorted, and those of this member."""

    queues: list[MessageQueue]
    mine: list[MessageQueue]


class Rebalance(ABC):
    """The rounds of one member of a group. Subclasses choose the topics and apply the assignments.

    In a broadcasting group, every queue is assigned to every member.
    """

    def __init__(self, instance: ClientInstance, group: str, settings: ConsumerSettings) -> None:
        self._instance = instance
        self._group = group
        self._shared = not settings.broadcasting
        self._allocate = settings.allocate
        self._interval = settings.rebalance_interval
        self._clients_of: dict[frozenset[str], list[str]] = {}
        self._missing: set[str] = set()
        self._wake = trio.Event()
        self.begun = trio.Event()
        """An event that is set after the first round."""

    @abstractmethod
    async def topics(self) -> Iterable[str] | None:
        """Return the topics of the round that begins now; None to skip the round."""

    @abstractmethod
    async def divided(self, topic: str, share: Share) -> None:
        """Apply the result of a round for one topic, changed or not."""

    @abstractmethod
    def failed(self, topic: str, error: ClientError) -> None:
        """Handle the error of a topic whose queues could not be allocated; it keeps its queues."""

    async def run(self) -> None:
        while True:
            # Before the round, so that a change during it leads to another round.
            self._wake = trio.Event()
            topics = await self.topics()
            if topics is not None:
                await self._round(list(topics))
                self.begun.set()
            await self._pause()

    async def _pause(self) -> None:
        """Wait for the next round, which begins early if a missing topic was created."""
        with trio.move_on_after(self._interval):
            while self._missing:
                with trio.move_on_after(MISSING_INTERVAL):
                    await self._wake.wait()
                    return
                if await self._was_created():
                    return
            await self._wake.wait()

    async def _was_created(self) -> bool:
        for topic in self._missing:
            with contextlib.suppress(ClientError):
                await self._instance.routes.fetch(topic, self._instance.timeout)
                return True
        return False

    def soon(self) -> None:
        self._wake.set()

    async def _round(self, topics: Iterable[str]) -> None:
        self._clients_of.clear()
        self._missing.clear()
        for topic in topics:
            try:
                share = await self._divide(topic)
            except ClientError as error:
                log.info("rebalancing %s: %s", topic, error)
                if isinstance(error, NoRoute):
                    self._missing.add(topic)
                self.failed(topic, error)
                continue
            if share is not None:
                await self.divided(topic, share)

    async def _divide(self, topic: str) -> Share | None:
        """Return the current queues of a topic; None if brokers know no member.

        Raises ClientError if no broker can be queried.
        """
        route = await self._instance.route(topic)
        queues = sorted(route.subscribe)
        if not self._shared:
            return Share(queues, queues)
        # The lowest ID is that of the master or, without one, of a slave, which has the same members.
        clients = await self._clients([table[min(table)] for table in route.brokers.values() if table])
        if not clients:
            return None
        me = self._instance.client_id
        if me not in clients:
            log.warning("%s is not in the group %s that the broker knows", me, self._group)
            return Share(queues, [])  # the others divide all queues among themselves
        try:
            return Share(queues, list(self._allocate(me, queues, sorted(clients))))
        except Exception:  # raised by a strategy of the application; the assignment stays until it works
            log.exception("the queues of %s cannot be allocated", self._group)
            return None

    async def _clients(self, addresses: Sequence[str]) -> list[str]:
        if not addresses:
            return []
        brokers = frozenset(addresses)
        if brokers not in self._clients_of:
            header = GetConsumerListByGroupRequestHeader(consumer_group=self._group)
            # Any broker of the topic has all members, because heartbeats go to every broker.
            address = self._instance.random.choice(addresses)
            answer = await self._instance.ask(address, GET_CONSUMER_LIST_BY_GROUP, header, None)
            self._clients_of[brokers] = answer.body.consumer_id_list
        return self._clients_of[brokers]


OnChange = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], Awaitable[None]]
"""Called with a topic whose assignment changed, all its queues, and those of this member."""


class PullRebalance(Rebalance):
    """Rebalance of a pull or lite consumer (Java `RebalancePullImpl`); calls `on_change` only for changes.

    Runs between `start` and `stop`, for the topics in `names`.
    """

    def __init__(
        self, instance: ClientInstance, group: str, settings: ConsumerSettings, on_change: OnChange
    ) -> None:
        super().__init__(instance, group, settings)
        self._on_change = on_change
        self._known: dict[str, Share] = {}
        self._scope: trio.CancelScope | None = None
        self.names: set[str] = set()

    def start(self) -> None:
        """Start the rounds, or begin the next one now if they are running."""
        if self._scope is None:
            self._scope = self._instance.start(self.run, "rebalance")
        self.soon()

    def stop(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def forget(self, topic: str) -> None:
        """Make the next round count the assignment of the topic as changed."""
        self._known.pop(topic, None)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the current queues of this member in a topic.

        Raises ClientError if no broker can be queried.
        """
        self._clients_of.clear()
        share = await self._divide(topic)
        return [] if share is None else share.mine

    async def topics(self) -> Iterable[str]:
        return sorted(self.names)

    async def divided(self, topic: str, share: Share) -> None:
        if self._scope is not None and self._scope.cancel_called:
            return  # the reply came before the cancellation took effect
        if share != self._known.get(topic):
            self._known[topic] = share
            await self._on_change(topic, *share)

    def failed(self, topic: str, error: ClientError) -> None:
        """Do nothing, because a pull consumer reports no errors of rounds."""
