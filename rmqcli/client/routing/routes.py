"""Routes of topics: cached replies of a name server, read again every 30 s or after a failure.

For a topic without a route, a producer uses the route of TBW102 (Java `tryToFindTopicPublishInfo`); the
broker then creates the topic with at most `default_queues` queues. Consumers of an unknown topic get NoRoute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

import trio

from rmqcli.client.errors import (
    UNREACHED,
    ClientError,
    NoBrokers,
    NoNameServer,
    NoRoute,
    RequestTimeout,
    UnexpectedReply,
)
from rmqcli.client.wire.detached import in_task
from rmqcli.client.wire.pool import Pool
from rmqcli.client.wire.requests import answer_of, request_of
from rmqcli.codec.bodies.route import MAX_QUEUES, TopicRouteData, subscribe_queues
from rmqcli.codec.codes import MASTER_ID, Perm, ResponseCode
from rmqcli.codec.headers.routes import GetRouteInfoRequestHeader
from rmqcli.codec.message import SystemTopic
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.routes import GET_BROKER_CLUSTER_INFO, GET_ROUTEINFO_BY_TOPIC
from rmqcli.codec.remoting.command import RemotingCommand

REFRESH_INTERVAL = 30.0  # seconds; ClientConfig.pollNameServerInterval
LOCK_SLACK = 0.05  # seconds
MIN_AGE = 1.0  # seconds between two reads of a route that looks stale
DOUBT_TIMEOUT = 1.0  # seconds; then the old route is used, which leaves the rest of the time to its brokers


class Route(NamedTuple):
    """The route of one topic. `fallback`: it was derived from TBW102, and the topic may not exist yet."""

    topic: str
    data: TopicRouteData
    publish: tuple[MessageQueue, ...]
    subscribe: tuple[MessageQueue, ...]
    brokers: Mapping[str, Mapping[int, str]]
    read_at: float
    fallback: bool = False


def publish_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Return the queues to send to: writable ones on brokers with a master.

    Java: `topicRouteData2TopicPublishInfo`.
    """
    if data.order_topic_conf:
        return tuple(_ordered(topic, data.order_topic_conf))
    masters = {broker.broker_name for broker in data.broker_datas if MASTER_ID in broker.broker_addrs}
    return tuple(
        MessageQueue(topic, queues.broker_name, queue_id)
        for queues in sorted(data.queue_datas, key=attrgetter("broker_name"))
        if queues.perm & Perm.WRITE and queues.broker_name in masters
        for queue_id in range(queues.write_queue_nums)
    )


def _ordered(topic: str, conf: str) -> list[MessageQueue]:
    """Return the queues of "broker-a:4;broker-b:2", in that order, skipping parts that do not parse."""
    pairs = (part.rpartition(":") for part in conf.split(";"))
    queues = (
        MessageQueue(topic, name, queue_id)
        for name, _, count in pairs
        if name and count.isascii() and count.isdigit() and len(count) < 6
        for queue_id in range(int(count))
    )
    return list(islice(queues, MAX_QUEUES))


class NameServers:
    """Sends requests to one name server as long as it replies, then to the next.

    Name servers do not replicate, so an error code is a reply, not a reason to try the next one.
    """

    def __init__(self, addresses: Sequence[str], pool: Pool) -> None:
        self.addresses = tuple(addresses)
        self._pool = pool
        self._current = 0

    @property
    def current(self) -> str:
        return self.addresses[self._current]

    def prefer(self, address: str) -> None:
        """Make one of the addresses the first to be tried. Raises ValueError for any other address."""
        self._current = self.addresses.index(address)

    async def request(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        """Return the reply of the first one that replies within `timeout` seconds in total.

        Raises NoNameServer.
        """
        deadline = trio.current_time() + timeout
        causes: list[ClientError] = []
        count = len(self.addresses)
        first = self._current
        for tried in range(count):
            index = (first + tried) % count
            # The time left is divided among the servers left, so that a silent one does not use all of it.
            share = max(0.0, deadline - trio.current_time()) / (count - tried)
            try:
                return await self._pool.request(self.addresses[index], command, share)
            except UNREACHED as error:
                causes.append(error)
                # Another task may have moved on to the next server already.
                if self._current == index:
                    self._current = (index + 1) % count
        if isinstance(causes[0], RequestTimeout) and count == 1:
            raise causes[0]
        raise NoNameServer(self.addresses, tuple(causes))


class Routes:
    """The routes that one client instance has read, and the addresses of their brokers by name."""

    def __init__(self, name_servers: NameServers, *, default_queues: int = 4) -> None:
        self._name_servers = name_servers
        self._default_queues = default_queues
        self._routes: dict[str, Route] = {}
        self._locks: dict[str, trio.Lock] = {}
        self._stale: set[str] = set()
        self._learned: set[str] = set()
        self.brokers: dict[str, Mapping[int, str]] = {}
        self.changed = trio.Event()

    def __len__(self) -> int:
        return len(self._routes)

    def cached(self, topic: str) -> Route | None:
        """Return the route if it is known and not doubtful."""
        return None if topic in self._stale else self._routes.get(topic)

    async def find(self, topic: str, timeout: float, *, create: bool = False) -> Route:
        """Return the route of `topic`, or with `create` that of TBW102. Raises NoRoute if neither exists."""
        route = self.cached(topic)
        if route is not None and (create or not route.fallback):
            return route
        await in_task()
        deadline = trio.current_time() + timeout
        # Waiting for the lock takes at most as long as the request of the task that holds it; with the slack,
        # the error of that request comes first.
        with trio.move_on_at(deadline + LOCK_SLACK):
            lock = self._locks.setdefault(topic, trio.Lock())
            try:
                async with lock:
                    known = self._routes.get(topic)
                    left = max(0.0, deadline - trio.current_time())
                    if known is None or (known.fallback and not create):
                        return await self.read(topic, left, create=create)
                    young = trio.current_time() - known.read_at < MIN_AGE
                    if topic not in self._stale or young:
                        return known
                    return await self._read_again(known, left, create=create)
            finally:
                # Clients of a proxy may request any number of topics that do not exist.
                if topic not in self._routes and not lock.locked() and self._locks.get(topic) is lock:
                    del self._locks[topic]
        raise RequestTimeout(self._name_servers.current, GET_ROUTEINFO_BY_TOPIC.name, timeout)

    async def _read_again(self, known: Route, timeout: float, *, create: bool) -> Route:
        """Return the current route of a doubtful topic, or the old one if no name server replies: some of its
        brokers may work.
        """
        try:
            return await self.read(known.topic, min(timeout, DOUBT_TIMEOUT), create=create)
        except UNREACHED:
            kept = self._routes[known.topic] = known._replace(read_at=trio.current_time())
            return kept

    def doubt(self, topic: str) -> None:
        """Mark the route to an unreachable broker, to be read again before its next use."""
        if topic in self._routes:
            self._stale.add(topic)

    def outdate(self, topic: str) -> None:
        """Mark a route that this client has changed, to be read again even if it was read just now."""
        if topic in self._routes:
            self._routes[topic] = self._routes[topic]._replace(read_at=-math.inf)
            self._stale.add(topic)

    def is_doubtful(self, topic: str) -> bool:
        return topic in self._stale

    async def refresh(self, timeout: float) -> None:
        """Read every known route again, keep those that cannot be read, and forget brokers without a
        route.
        """
        for topic, route in list(self._routes.items()):
            try:
                await self.read(topic, timeout, create=route.fallback)
            except ClientError:
                continue
        self._forget_gone()

    def _forget_gone(self) -> None:
        """End heartbeats to brokers that are gone, since each would time out (Java `cleanOfflineBroker`)."""
        named = {name for route in self._routes.values() for name in route.brokers}
        for name in self.brokers.keys() - named - self._learned:
            del self.brokers[name]

    async def fetch(self, topic: str, timeout: float) -> TopicRouteData:
        """Return the current route from the name server. Raises NoRoute if it has none."""
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        request = request_of(GET_ROUTEINFO_BY_TOPIC, header, None)
        reply = await self._name_servers.request(request, timeout)
        address = self._name_servers.current
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            raise NoRoute(topic, address, reply.remark)
        data = answer_of(GET_ROUTEINFO_BY_TOPIC, reply, address).body
        if data.has_too_many_queues:
            raise UnexpectedReply(address, GET_ROUTEINFO_BY_TOPIC.name, f"more than {MAX_QUEUES} queues")
        return data

    async def read(self, topic: str, timeout: float, *, create: bool = False) -> Route:
        """Return the current route from the name server and cache it.

        Raises NoRoute if there is none, NoBrokers if no broker is registered at all.
        """
        fallback = False
        try:
            data = await self.fetch(topic, timeout)
        except NoRoute as error:
            if not create:
                raise await self._why_absent(error, timeout) from None
            data, fallback = await self._fallback(topic, timeout), True
        return self._keep(topic, data, fallback)

    async def _fallback(self, topic: str, timeout: float) -> TopicRouteData:
        try:
            return await self.fetch(SystemTopic.AUTO_CREATE, timeout)
        except NoRoute as error:
            detail = ", and no broker creates topics by itself"
            absent = NoRoute(topic, error.address, error.remark, detail)
            raise await self._why_absent(absent, timeout) from None

    async def _why_absent(self, error: NoRoute, timeout: float) -> ClientError:
        """Return NoBrokers if no broker at all is registered, otherwise `error`.

        Without brokers, creating the topic would not help.
        """
        try:
            reply = await self._name_servers.request(request_of(GET_BROKER_CLUSTER_INFO, None, None), timeout)
            found = answer_of(GET_BROKER_CLUSTER_INFO, reply, self._name_servers.current).body
        except ClientError:
            return error
        return error if found.broker_addr_table else NoBrokers(error.address)

    def _keep(self, topic: str, data: TopicRouteData, fallback: bool) -> Route:
        publish, subscribe = publish_queues(topic, data), subscribe_queues(topic, data)
        if fallback:
            publish = tuple(queue for queue in publish if queue.queue_id < self._default_queues)
        brokers = {broker.broker_name: broker.broker_addrs for broker in data.broker_datas}
        route = Route(topic, data, publish, subscribe, brokers, trio.current_time(), fallback)
        self._routes[topic] = route
        self._stale.discard(topic)
        self._add(brokers)
        return route

    def learn(self, brokers: Mapping[str, Mapping[int, str]]) -> None:
        """Add addresses of brokers that need no route. `changed` is set if any of them is new."""
        self._learned.update(brokers)
        self._add(brokers)

    def _add(self, brokers: Mapping[str, Mapping[int, str]]) -> None:
        if any(self.brokers.get(name) != addresses for name, addresses in brokers.items()):
            self.brokers.update(brokers)
            # Tasks that wait have the old event; those that wait from now on need the next change.
            self.changed.set()
            self.changed = trio.Event()
