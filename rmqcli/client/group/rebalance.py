"""Rebalance: the share of this member in the queues of its topics (Java `RebalanceImpl`).

A round runs every 20 s, and at once when a broker reports that members came or went (40). Every member
divides the same queues among the same clients, so the client list of a set of brokers is read once per round.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import trio

from codec.headers.clients import GetConsumerListByGroupRequestHeader, NotifyConsumerIdsChangedRequestHeader
from codec.message_queue import MessageQueue
from codec.operations.clients import GET_CONSUMER_LIST_BY_GROUP, NOTIFY_CONSUMER_IDS_CHANGED
from rmqcli.client.errors import ClientError
from rmqcli.client.group.allocation import Allocate, averagely
from rmqcli.client.instance import ClientInstance
from rmqcli.client.processor.processor import BrokerRequest

REBALANCE_INTERVAL = 20.0  # seconds; rocketmq.client.rebalance.waitInterval

log = logging.getLogger("rmqcli.client.group.rebalance")


class Share(NamedTuple):
    """All queues of a topic, sorted, and those of this member."""

    queues: list[MessageQueue]
    mine: list[MessageQueue]


class Member(Protocol):
    """A consumer that takes part in rebalance."""

    async def topics(self) -> Iterable[str] | None:
        """The topics to divide in a round that begins; None to skip the round."""

    async def divided(self, topic: str, share: Share) -> None:
        """The result of a round for one topic, changed or not."""

    def failed(self, topic: str, error: ClientError) -> None:
        """A topic that could not be divided keeps its queues."""


class Rebalance:
    """The rounds of one member. `shared` False (broadcasting): every queue belongs to every member."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        member: Member,
        *,
        shared: bool = True,
        allocate: Allocate = averagely,
        interval: float = REBALANCE_INTERVAL,
    ) -> None:
        self._instance = instance
        self._group = group
        self._member = member
        self._shared = shared
        self._allocate = allocate
        self._interval = interval
        self._clients_of: dict[frozenset[str], list[str]] = {}
        self._wake = trio.Event()
        self.begun = trio.Event()
        """Set after the first round."""

    async def run(self) -> None:
        """Rounds without end."""
        while True:
            self._wake = trio.Event()
            topics = await self._member.topics()
            if topics is not None:
                await self._round(list(topics))
                self.begun.set()
            with trio.move_on_after(self._interval):
                await self._wake.wait()

    def soon(self) -> None:
        """Starts a round now."""
        self._wake.set()

    def on_members_changed(
        self, request: BrokerRequest[NotifyConsumerIdsChangedRequestHeader, None, None, None]
    ) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED (40), one-way."""
        self.soon()

    async def _round(self, topics: Iterable[str]) -> None:
        self._clients_of.clear()
        for topic in topics:
            try:
                share = await self._divide(topic)
            except ClientError as error:
                log.info("rebalancing %s: %s", topic, error)
                self._member.failed(topic, error)
                continue
            if share is not None:
                await self._member.divided(topic, share)

    async def share(self, topic: str) -> Share | None:
        """The current share in a topic: None if brokers know no member, ClientError if none can be asked."""
        self._clients_of.clear()
        return await self._divide(topic)

    async def _divide(self, topic: str) -> Share | None:
        route = await self._instance.route(topic)
        queues = sorted(route.subscribe)
        if not self._shared:
            return Share(queues, queues)
        clients = await self._clients([table[min(table)] for table in route.brokers.values() if table])
        if not clients:
            return None
        me = self._instance.client_id
        if me not in clients:
            log.warning("%s is not in the group %s that the broker knows", me, self._group)
            return Share(queues, [])
        try:
            return Share(queues, list(self._allocate(me, queues, sorted(clients))))
        except Exception:  # a strategy of the application; the division stays until it works
            log.exception("the queues of %s cannot be allocated", self._group)
            return None

    async def _clients(self, addresses: Sequence[str]) -> list[str]:
        if not addresses:
            return []
        brokers = frozenset(addresses)
        if brokers not in self._clients_of:
            header = GetConsumerListByGroupRequestHeader(consumer_group=self._group)
            address = self._instance.random.choice(addresses)
            answer = await self._instance.ask(address, GET_CONSUMER_LIST_BY_GROUP, header, None)
            self._clients_of[brokers] = answer.body.consumer_id_list
        return self._clients_of[brokers]


OnChange = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], Awaitable[None]]
"""Called with a topic whose division changed, all its queues, and those of this member."""


class PullRebalance:
    """Rebalance of a pull or lite consumer (Java `RebalancePullImpl`); calls `on_change` only for changes.

    Runs between `start` and `stop`, for the topics in `topics`.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        on_change: OnChange,
        *,
        shared: bool = True,
        allocate: Allocate = averagely,
        interval: float = REBALANCE_INTERVAL,
    ) -> None:
        self._instance = instance
        self._group = group
        self._on_change = on_change
        self._rebalance = Rebalance(
            instance, group, _Changes(self), shared=shared, allocate=allocate, interval=interval
        )
        self._known: dict[str, Share] = {}
        self._scope: trio.CancelScope | None = None
        self.topics: set[str] = set()

    def start(self) -> None:
        """Starts the rounds; when they run already, the next one begins now."""
        if self._scope is None:
            requests, on_change = self._instance.requests, self._rebalance.on_members_changed
            requests.register(NOTIFY_CONSUMER_IDS_CHANGED, on_change, self._group)
            self._scope = self._instance.start(self._rebalance.run, "rebalance")
        self._rebalance.soon()

    def stop(self) -> None:
        if self._scope is not None:
            requests, on_change = self._instance.requests, self._rebalance.on_members_changed
            requests.unregister(NOTIFY_CONSUMER_IDS_CHANGED, on_change, self._group)
            self._scope.cancel()

    def forget(self, topic: str) -> None:
        """The next division of the topic counts as changed."""
        self._known.pop(topic, None)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The current queues of this member in a topic; ClientError when brokers cannot be asked."""
        share = await self._rebalance.share(topic)
        return [] if share is None else share.mine

    async def apply(self, topic: str, share: Share) -> None:
        if share != self._known.get(topic):
            self._known[topic] = share
            await self._on_change(topic, *share)


class _Changes:
    """The Member of a PullRebalance."""

    def __init__(self, owner: PullRebalance) -> None:
        self._owner = owner

    async def topics(self) -> Iterable[str]:
        return sorted(self._owner.topics)

    async def divided(self, topic: str, share: Share) -> None:
        await self._owner.apply(topic, share)

    def failed(self, topic: str, error: ClientError) -> None:
        pass
