"""Heartbeats: the groups of this client, sent to brokers every 30 s.

They are also sent at once when a new broker appears in a route or a connection to one is reopened. With
producers only, masters receive them; with consumers, slaves do as well (Java `sendHeartbeatToAllBroker`). An
unreachable broker has to wait for the next round.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio

from rmqcli.client.errors import ClientError
from rmqcli.client.functions import for_each
from rmqcli.client.wire.link import Link
from rmqcli.codec.codes import MASTER_ID, RequestCode

if TYPE_CHECKING:
    from rmqcli.client.group.settings import ConsumerSettings
    from rmqcli.client.instance import ClientInstance
    from rmqcli.codec.bodies.heartbeat import ConsumerData, ConsumeType, SubscriptionData

HEARTBEAT_INTERVAL = 30.0  # seconds; ClientConfig.heartbeatBrokerInterval
LEAVE_TIMEOUT = 0.5  # seconds, for all brokers together


class Heartbeats:
    """The groups of one client instance."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._producers: Counter[str] = Counter()
        self._consumers: dict[str, ConsumerData] = {}
        self._running: trio.CancelScope | None = None
        self._informed: dict[str, Link | None] = {}
        self._informing: set[str] = set()

    def join_producer(self, group: str) -> None:
        """Register a producer group at the brokers of all later routes."""
        self._producers[group] += 1
        self._start()

    def join_consumer(self, data: ConsumerData) -> None:
        """Register a consumer group, or replace its subscriptions."""
        self._consumers[data.group_name] = msgspec.structs.replace(data, unit_mode=self._instance.unit_mode)
        self._start()

    async def announce_consumer(
        self,
        group: str,
        consume_type: ConsumeType,
        settings: ConsumerSettings,
        subscriptions: list[SubscriptionData],
    ) -> None:
        """Register a consumer group, or replace its subscriptions, at all brokers now."""
        from rmqcli.codec.bodies.heartbeat import ConsumerData

        data = ConsumerData(
            group_name=group,
            consume_type=consume_type,
            message_model=settings.message_model,
            consume_from_where=settings.consume_from,
            subscription_data_set=subscriptions,
        )
        self.join_consumer(data)
        await self.send_all()

    async def leave_producer(self, group: str) -> None:
        """Unregister the group at every broker that knows it, unless another producer still uses it."""
        self._producers[group] -= 1
        if self._producers[group] <= 0:
            del self._producers[group]
            await self._leave([group], [])

    async def leave_consumer(self, group: str) -> None:
        if self._consumers.pop(group, None) is not None:
            await self._leave([], [group])

    async def leave_all(self) -> None:
        """Unregister all remaining groups, within LEAVE_TIMEOUT, even when cancelled."""
        producers, consumers = list(self._producers), list(self._consumers)
        self._producers.clear()
        self._consumers.clear()
        await self._leave(producers, consumers)

    async def send_all(self) -> None:
        await self._send_to(self._addresses())

    async def introduce(self, addresses: Iterable[str]) -> None:
        """Send a heartbeat to those brokers that have received none on their current connection."""
        link = self._instance.pool.link
        await self._send_to(
            [a for a in addresses if self._informed.get(a) is None or self._informed[a] is not link(a)]
        )

    def connected(self, address: str) -> None:
        """Send a heartbeat to a reconnected broker, which may have restarted. Java waits up to 30 s."""
        if address in self._informed and address not in self._informing:
            self._instance.nursery.start_soon(self.introduce, [address], name=f"heartbeat to {address}")

    async def _send_to(self, addresses: Iterable[str]) -> None:
        if not self._producers and not self._consumers:
            return
        from rmqcli.codec.bodies.heartbeat import HeartbeatData, ProducerData
        from rmqcli.codec.operations.clients import HEART_BEAT

        data = HeartbeatData(
            client_id=self._instance.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self._producers],
            consumer_data_set=list(self._consumers.values()),
        )
        _, body = HEART_BEAT.encode_request(None, data)
        await for_each(partial(self._send, body=body), addresses)

    def _start(self) -> None:
        if self._running is None:
            self._running = self._instance.start(self._run, "heartbeats")

    async def _run(self) -> None:
        while True:
            # Taken before the sends, so that a broker that appears meanwhile is not missed.
            changed = self._instance.routes.changed
            await self.send_all()
            with trio.move_on_after(HEARTBEAT_INTERVAL):
                await changed.wait()

    def _addresses(self) -> set[str]:
        return {
            address
            for table in self._instance.routes.brokers.values()
            for broker_id, address in table.items()
            if broker_id == MASTER_ID or self._consumers
        }

    async def _send(self, address: str, body: bytes) -> None:
        # If this heartbeat opens the connection, `connected` must not send another one.
        self._informing.add(address)
        try:
            await self._instance.call(address, RequestCode.HEART_BEAT, body=body)
        except ClientError:
            return
        finally:
            self._informing.discard(address)
        self._informed[address] = self._instance.pool.link(address)

    async def _leave(self, producers: list[str], consumers: list[str]) -> None:
        if not (producers or consumers):
            return
        from rmqcli.codec.headers.clients import UnregisterClientRequestHeader
        from rmqcli.codec.operations.clients import UNREGISTER_CLIENT

        new = partial(UnregisterClientRequestHeader, client_id=self._instance.client_id)
        headers = [new(producer_group=group) for group in producers]
        headers += [new(consumer_group=group) for group in consumers]
        informed = self._informed.keys() & set(self._instance.pool.addresses)

        async def unregister(address: str) -> None:
            with contextlib.suppress(ClientError):
                for header in headers:
                    await self._instance.send_oneway(
                        address, UNREGISTER_CLIENT, header, timeout=LEAVE_TIMEOUT
                    )

        if informed:
            with trio.move_on_after(LEAVE_TIMEOUT, shield=True):
                await for_each(unregister, informed)
