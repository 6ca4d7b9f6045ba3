"""The queues of topics on all brokers, as known to the name servers (Java `TopicRouteInfoManager`), which a
broker needs to allocate queues to the members of a group.

A route is requested on demand, at most every MAX_AGE seconds; Java refreshes the known routes every 30 s.
While no name server replies, the last known queues are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import trio

from rmqcli.broker.errors import BrokerError
from rmqcli.broker.net.handling import command_of
from rmqcli.broker.net.peers import Peers
from rmqcli.codec.bodies.route import MAX_QUEUES, subscribe_queues
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.headers.routes import GetRouteInfoRequestHeader
from rmqcli.codec.ids import split_addresses
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.routes import GET_ROUTEINFO_BY_TOPIC

MAX_AGE = 5.0
ASK_SECONDS = 1.0
"""Time for each name server to reply; the waiting client has 3 s in total."""
SILENT_SECONDS = 1.0
"""Pause after a failure at all name servers, during which all requests fail immediately."""
MOST_TOPICS = 4096
"""Maximum number of topics that are kept; the oldest ones are dropped."""


class _Known(NamedTuple):
    read_at: float
    queues: tuple[MessageQueue, ...]


class TopicRoutes:
    """Requests routes from the name servers that `addresses` returns ("a:1;b:2"), over `peers` while they
    run."""

    def __init__(self, addresses: Callable[[], str | None], peers: Peers) -> None:
        self._addresses = addresses
        self._peers = peers
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, trio.Event] = {}
        self._failure = ""
        self._silent_until = -math.inf

    async def queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Return the read queues of a topic; None if the name servers do not know it.

        Concurrent requests for one topic share a reply. Raises BrokerError if no name server replies.
        """
        while topic in self._asking:
            await self._asking[topic].wait()
        known = self._known.get(topic)
        if known is not None and trio.current_time() < known.read_at + MAX_AGE:
            return known.queues
        answered = self._asking[topic] = trio.Event()
        try:
            found = await self._ask(topic)
        except BrokerError:
            if known is None:
                raise
            return known.queues
        finally:
            del self._asking[topic]
            answered.set()
        self._known.pop(topic, None)
        if found is None:
            return None
        if len(self._known) >= MOST_TOPICS:
            del self._known[next(iter(self._known))]
        self._known[topic] = _Known(trio.current_time(), found)
        return found

    async def _ask(self, topic: str) -> tuple[MessageQueue, ...] | None:
        if trio.current_time() < self._silent_until:
            raise BrokerError(self._failure)
        self._failure = "this broker has no name server to ask for routes"
        for address in split_addresses(self._addresses() or "") if self._peers.is_running else ():
            try:
                return await self._ask_at(address, topic)
            except (BrokerError, CodecError) as error:
                self._failure = f"name server {address}: {error}"
        self._silent_until = trio.current_time() + SILENT_SECONDS
        raise BrokerError(self._failure)

    async def _ask_at(self, address: str, topic: str) -> tuple[MessageQueue, ...] | None:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        command = command_of(GET_ROUTEINFO_BY_TOPIC, header, None)
        reply = await self._peers.request(address, command, ASK_SECONDS)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if reply.code != ResponseCode.SUCCESS:
            raise BrokerError(f"the route of {topic} is refused with {reply.code}: {reply.remark}")
        data = GET_ROUTEINFO_BY_TOPIC.decode_reply(reply).body
        if data.has_too_many_queues:
            raise BrokerError(f"topic {topic} has more than {MAX_QUEUES} queues")
        return subscribe_queues(topic, data)
