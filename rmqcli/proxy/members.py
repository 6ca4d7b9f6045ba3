"""The groups of gRPC clients, as members of which the proxy registers at all brokers.

Brokers know only the proxy, because a Java broker knows one client for each connection and group. Their
requests to a member of a group are passed on to one of its gRPC clients.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from rmqcli.broker.errors import RemoteClosed, RemoteTimeout
from rmqcli.broker.proxy.answers import StatusError
from rmqcli.broker.proxy.clients import Client
from rmqcli.client import ClientError
from rmqcli.client.instance import ClientInstance
from rmqcli.client.processor import BrokerRequest
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData
from rmqcli.codec.headers.transactions import CheckTransactionStateRequestHeader
from rmqcli.codec.operations.clients import CONSUME_MESSAGE_DIRECTLY, GET_CONSUMER_RUNNING_INFO
from rmqcli.codec.operations.messages import CHECK_TRANSACTION_STATE
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.proxy.codes import Code
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand

QUESTION_SECONDS = 15.0
MOST_GROUPS = 16_384
"""Groups of producers and consumers: each heartbeat to a broker names all of them."""

log = logging.getLogger("rmqcli.proxy")


class Members:
    """The clients of each group."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._producers: dict[str, dict[Client, None]] = {}
        self._consumers: dict[str, dict[Client, None]] = {}
        self._told: dict[str, ConsumerData] = {}
        self._known: set[Client] = set()
        instance.requests.register(CHECK_TRANSACTION_STATE, self._check)

    async def join(self, client: Client, data: HeartbeatData) -> None:
        """Register a client in its groups until it leaves; notify the brokers of changes."""
        if client not in self._known:
            self._known.add(client)
            client.on_close(partial(self._leave_all, client))
        new = {one.group_name for one in data.producer_data_set} - self._producers.keys()
        new |= {one.group_name for one in data.consumer_data_set} - self._consumers.keys()
        if new and len(self._producers) + len(self._consumers) + len(new) > MOST_GROUPS:
            raise StatusError(Code.TOO_MANY_REQUESTS, f"the proxy has {MOST_GROUPS} groups already")
        is_new = False
        for producer in data.producer_data_set:
            is_new |= self._join_producer(producer.group_name, client)
        for consumer in data.consumer_data_set:
            is_new |= self._join_consumer(consumer, client)
        if is_new:
            await self._know_brokers(data)
            await self._instance.heartbeats.send_all()

    async def _know_brokers(self, data: HeartbeatData) -> None:
        """Read a route, which names brokers, if none is known. Clients request the other routes."""
        topics = {producer.group_name for producer in data.producer_data_set}
        topics |= {one.topic for consumer in data.consumer_data_set for one in consumer.subscription_data_set}
        for topic in topics:
            if self._instance.routes.brokers:
                return
            with suppress(ClientError):  # it may be created later
                await self._instance.route(topic, create=True)

    def _join_producer(self, group: str, client: Client) -> bool:
        is_new = group not in self._producers
        if is_new:
            self._instance.heartbeats.join_producer(group)
        self._producers.setdefault(group, {})[client] = None
        return is_new

    def _join_consumer(self, data: ConsumerData, client: Client) -> bool:
        group = data.group_name
        if group not in self._consumers:
            ask = partial(self._ask, group)
            self._instance.requests.register(GET_CONSUMER_RUNNING_INFO, ask, group)
            self._instance.requests.register(CONSUME_MESSAGE_DIRECTLY, ask, group)
        self._consumers.setdefault(group, {})[client] = None
        # Each heartbeat has another version.
        plain = [replace(one, sub_version=0) for one in data.subscription_data_set]
        wanted = replace(data, subscription_data_set=plain)
        if self._told.get(group) == wanted:
            return False
        self._told[group] = wanted
        self._instance.heartbeats.join_consumer(data)
        return True

    def leave(self, client: Client, group: str) -> None:
        """Remove a client from a consumer group."""
        members = self._consumers.get(group, {})
        members.pop(client, None)
        if group in self._consumers and not members:
            del self._consumers[group], self._told[group]
            self._instance.requests.unregister_group(group)
            self._instance.nursery.start_soon(self._instance.heartbeats.leave_consumer, group)

    def _leave_all(self, client: Client) -> None:
        self._known.discard(client)
        for group in [group for group, members in self._consumers.items() if client in members]:
            self.leave(client, group)
        for group in [group for group, members in self._producers.items() if client in members]:
            del self._producers[group][client]
            if not self._producers[group]:
                del self._producers[group]
                self._instance.nursery.start_soon(self._instance.heartbeats.leave_producer, group)

    # requests of brokers

    def _check(self, request: BrokerRequest[CheckTransactionStateRequestHeader, None, bytes, None]) -> None:
        """Pass the check of a half message on to a producer that has a telemetry stream; without one, the
        broker checks again.
        """
        table = self._instance.routes.brokers
        named = (name for name, known in table.items() if request.address in known.values())
        name = next(named, request.header.bname or "")
        for half in decode_records(request.body):
            members = self._producers.get(half.properties.get(PropertyName.PGROUP, ""), {})
            client = next((one for one in members if one.stream is not None), None)
            if client is not None:
                client.recover(half, name)
                # The next check goes to another producer.
                members[client] = members.pop(client)

    def _ask(self, group: str, request: BrokerRequest[Any, Any, Any, Any]) -> RemotingCommand | None:
        members = self._consumers[group]
        client = next((one for one in members if one.stream is not None), None)
        if client is None:
            return request.refuse(f"no client of group {group} has a telemetry stream")
        self._instance.nursery.start_soon(self._answer, client, request)
        return None

    @staticmethod
    async def _answer(client: Client, request: BrokerRequest[Any, Any, Any, Any]) -> None:
        try:
            reply = await client.request(request.command, QUESTION_SECONDS)
        except (RemoteClosed, RemoteTimeout) as error:
            reply = request.refuse(str(error))
        request.send(reply)
