"""Which queues of some topics belong to this member of a group, for consumers that pull: every 20 s, and at once when the
broker says that members came or went (40). The same division as a push consumer's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import trio

from codec.bodies.base import decode_body
from codec.bodies.connections import GetConsumerListByGroupResponseBody
from codec.codes import RequestCode
from codec.errors import CodecError
from codec.headers.clients import GetConsumerListByGroupRequestHeader
from codec.message_queue import MessageQueue
from codec.remoting.frame import RemotingCommand
from rmqcli.client.errors import ClientError, UnexpectedReply
from rmqcli.client.group.allocation import Allocate, averagely
from rmqcli.client.instance import ClientInstance
from rmqcli.client.wire.link import Link

__all__ = ["REBALANCE_INTERVAL", "Balance", "OnBalance"]

_NOTICE = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
REBALANCE_INTERVAL = 20.0  # seconds; rocketmq.client.rebalance.waitInterval

OnBalance = Callable[[str, Sequence[MessageQueue], Sequence[MessageQueue]], Awaitable[None]]
"""Hears of a topic whose division changed: all its queues, and those that are ours."""

log = logging.getLogger("rmqcli.client.group.balance")


class Balance:
    """The share of one member. `shared` False (broadcasting): every queue is ours. Use between `start` and `stop`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        on_change: OnBalance,
        *,
        shared: bool = True,
        allocate: Allocate = averagely,
        interval: float = REBALANCE_INTERVAL,
    ) -> None:
        self._instance = instance
        self._group = group
        self._on_change = on_change
        self._shared = shared
        self._allocate = allocate
        self._interval = interval
        self._known: dict[str, tuple[list[MessageQueue], list[MessageQueue]]] = {}
        self._wake = trio.Event()
        self._scope: trio.CancelScope | None = None
        self.topics: set[str] = set()

    def start(self) -> None:
        """Begins to divide; nothing happens the second time."""
        if self._scope is None:
            self._instance.requests.hear(_NOTICE, self._on_notice, self._group)
            self._scope = self._instance.start(self._run, "rebalance")
        self.soon()

    def stop(self) -> None:
        if self._scope is not None:
            self._instance.requests.leave(_NOTICE, self._on_notice, self._group)
            self._scope.cancel()

    def soon(self) -> None:
        """A round now."""
        self._wake.set()

    def forget(self, topic: str) -> None:
        """The topic's division counts as changed when it comes back."""
        self._known.pop(topic, None)

    async def divide(self, topic: str) -> tuple[list[MessageQueue], list[MessageQueue]]:
        """All queues of the topic, and ours; ClientError when nobody can say."""
        route = await self._instance.route(topic)
        queues = sorted(route.subscribe)
        if not self._shared:
            return queues, queues
        clients = await self._clients([table[min(table)] for table in route.brokers.values() if table])
        me = self._instance.client_id
        if me not in clients:
            log.info("%s is not in the group %s that the broker knows", me, self._group)
            return queues, []
        return queues, self._allocate(me, queues, sorted(clients))

    async def _clients(self, addresses: list[str]) -> list[str]:
        if not addresses:
            return []
        address = self._instance.random.choice(addresses)
        code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
        header = GetConsumerListByGroupRequestHeader(consumer_group=self._group)
        reply = await self._instance.call(address, code, header)
        try:
            return decode_body(GetConsumerListByGroupResponseBody, reply.body).consumer_id_list
        except CodecError as error:
            raise UnexpectedReply(address, code.name, str(error)) from error

    async def _run(self) -> None:
        while True:
            self._wake = trio.Event()
            for topic in sorted(self.topics):
                await self._round(topic)
            with trio.move_on_after(self._interval):
                await self._wake.wait()

    async def _round(self, topic: str) -> None:
        try:
            found = await self.divide(topic)
        except ClientError as error:
            # The topic stays divided as it is until somebody can say
            log.info("rebalancing %s: %s", topic, error)
            return
        if found != self._known.get(topic):
            self._known[topic] = found
            await self._on_change(topic, *found)

    def _on_notice(self, link: Link, request: RemotingCommand) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED (40), one-way."""
        self.soon()
