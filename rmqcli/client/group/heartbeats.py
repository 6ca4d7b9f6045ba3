"""Telling brokers which groups live in this client: every 30 s, and at once when a new broker appears in a route
or a connection to one was opened again.

Producers only: masters; with consumers: slaves too (Java `sendHeartbeatToAllBroker`). A broker that cannot be reached is
left to the next round. The version in the reply is the broker's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
import trio

from codec.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from codec.headers.clients import UnregisterClientRequestHeader
from codec.operations.clients import HEART_BEAT, UNREGISTER_CLIENT
from rmqcli.client.errors import ClientError
from rmqcli.client.wire.link import Link

if TYPE_CHECKING:
    from rmqcli.client.instance import ClientInstance

HEARTBEAT_INTERVAL = 30.0  # seconds; ClientConfig.heartbeatBrokerInterval
LEAVE_TIMEOUT = 0.5  # seconds, for all brokers together
_MASTER = 0


class Heartbeats:
    """The groups of one client instance. `versions` is what brokers said of themselves (address → MQVersion number)."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._producers: Counter[str] = Counter()
        self._consumers: dict[str, ConsumerData] = {}
        self._running: trio.CancelScope | None = None
        self._told: dict[str, Link | None] = {}
        self._telling: set[str] = set()
        self.versions: dict[str, int] = {}

    def join_producer(self, group: str) -> None:
        """Registers a producer group from the next route on."""
        self._producers[group] += 1
        self._start()

    def join_consumer(self, data: ConsumerData) -> None:
        """Registers a consumer group, or replaces its subscriptions."""
        self._consumers[data.group_name] = msgspec.structs.replace(data, unit_mode=self._instance.unit_mode)
        self._start()

    async def leave_producer(self, group: str) -> None:
        """Unregisters the group at every broker that was told of it, unless another producer still uses it."""
        self._producers[group] -= 1
        if self._producers[group] <= 0:
            del self._producers[group]
            await self._leave(
                [UnregisterClientRequestHeader(client_id=self._instance.client_id, producer_group=group)]
            )

    async def leave_consumer(self, group: str) -> None:
        if self._consumers.pop(group, None) is not None:
            await self._leave(
                [UnregisterClientRequestHeader(client_id=self._instance.client_id, consumer_group=group)]
            )

    async def leave_all(self) -> None:
        """Unregisters everything that is left; takes LEAVE_TIMEOUT at most, even when cancelled."""
        client_id = self._instance.client_id
        headers = [
            *(
                UnregisterClientRequestHeader(client_id=client_id, producer_group=group)
                for group in self._producers
            ),
            *(
                UnregisterClientRequestHeader(client_id=client_id, consumer_group=group)
                for group in self._consumers
            ),
        ]
        self._producers.clear()
        self._consumers.clear()
        await self._leave(headers)

    async def send_all(self) -> None:
        """One heartbeat to every broker that should know, all at the same time."""
        await self._send_to(self._addresses())

    async def introduce(self, addresses: Iterable[str]) -> None:
        """A heartbeat to those of the brokers that have had none on the connection in use: they know this client then."""
        link = self._instance.pool.link
        await self._send_to(
            [a for a in addresses if self._told.get(a) is None or self._told[a] is not link(a)]
        )

    def connected(self, address: str) -> None:
        """A broker that is connected again may have restarted and know no group: Java's waits up to 30 s to tell it."""
        if address in self._told and address not in self._telling:
            self._instance.nursery.start_soon(self.introduce, [address], name=f"heartbeat to {address}")

    async def _send_to(self, addresses: Iterable[str]) -> None:
        if not self._producers and not self._consumers:
            return
        data = HeartbeatData(
            client_id=self._instance.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in self._producers],
            consumer_data_set=list(self._consumers.values()),
        )
        _, body = HEART_BEAT.encode_request(None, data)
        async with trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(self._send, address, body)

    def _start(self) -> None:
        if self._running is None:
            self._running = self._instance.start(self._run, "heartbeats")

    async def _run(self) -> None:
        while True:
            changed = self._instance.routes.changed
            await self.send_all()
            with trio.move_on_after(HEARTBEAT_INTERVAL):
                await changed.wait()

    def _addresses(self) -> set[str]:
        return {
            address
            for table in self._instance.routes.brokers.values()
            for broker_id, address in table.items()
            if broker_id == _MASTER or self._consumers
        }

    async def _send(self, address: str, body: bytes) -> None:
        self._telling.add(address)
        try:
            reply = await self._instance.call(address, HEART_BEAT.code, body=body)
        except ClientError:
            return
        finally:
            self._telling.discard(address)
        self._told[address] = self._instance.pool.link(address)
        self.versions[address] = reply.version

    async def _leave(self, headers: list[UnregisterClientRequestHeader]) -> None:
        told = self._told.keys() & set(self._instance.pool.addresses)
        if not headers or not told:
            return
        with trio.move_on_after(LEAVE_TIMEOUT, shield=True):
            async with trio.open_nursery() as nursery:
                for address in told:
                    nursery.start_soon(self._unregister, address, headers)

    async def _unregister(self, address: str, headers: list[UnregisterClientRequestHeader]) -> None:
        try:
            for header in headers:
                await self._instance.send_oneway(address, UNREGISTER_CLIENT, header, timeout=LEAVE_TIMEOUT)
        except ClientError:
            return
