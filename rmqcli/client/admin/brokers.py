"""Brokers: the list of a cluster with what each says of itself."""

from __future__ import annotations

from collections.abc import Collection

from codec.bodies.connections import ClientConnection, ProducerConnection, ProducerInfo, ProducerTableInfo
from codec.bodies.route import KVTable
from codec.codes import RequestCode, ResponseCode
from codec.headers.clients import GetProducerConnectionListRequestHeader
from rmqcli.client.admin.base import AdminBase, gather, read_body
from rmqcli.client.admin.values import BrokerSummary, ConnectedProducer
from rmqcli.client.errors import BrokerRefused, ClientError, NotFound

__all__ = ["BrokerAdmin"]


class BrokerAdmin(AdminBase):
    """Calls about brokers."""

    async def broker_runtime_info(self, address: str) -> dict[str, str]:
        """The table of GET_BROKER_RUNTIME_INFO (28): all values are text, see bodies of KVTable."""
        code = RequestCode.GET_BROKER_RUNTIME_INFO
        reply = await self.instance.call(address, code)
        return dict(read_body(KVTable, reply, address, code).table)

    async def clusters(self) -> list[BrokerSummary]:
        """Every address of every broker, sorted, with its runtime table or the error it gave."""
        info = await self.cluster_info()
        seats = sorted(
            (data.cluster, name, broker_id, address)
            for name, data in info.broker_addr_table.items()
            for broker_id, address in data.broker_addrs.items()
        )
        runtime, failures = await gather({seat[3]: None for seat in seats}, self.broker_runtime_info)
        return [BrokerSummary(*seat, runtime.get(seat[3]), failures.get(seat[3])) for seat in seats]

    async def producers(
        self, *, brokers: Collection[str] = (), failures: dict[str, ClientError] | None = None
    ) -> list[ConnectedProducer]:
        """Every producer that is connected to a master, by group and client (code 328; older brokers lack it)."""
        code = RequestCode.GET_ALL_PRODUCER_INFO

        async def ask(address: str) -> list[tuple[str, ProducerInfo]]:
            table = read_body(ProducerTableInfo, await self.instance.call(address, code), address, code).data
            return [(group, client) for group, clients in table.items() for client in clients]

        answers = await self.ask_all(await self.masters(brokers=brokers), ask, failures)
        return sorted(
            ConnectedProducer(
                group, c.client_id, name, (c.remote_ip or "").lstrip("/"), c.language or "", c.version
            )
            for name, found in answers.items()
            for group, c in found
        )

    async def producers_of(
        self, group: str, *, brokers: Collection[str] = (), failures: dict[str, ClientError] | None = None
    ) -> list[ConnectedProducer]:
        """The producers of one group that are connected to a master (code 204); NotFound when there is none."""
        code = RequestCode.GET_PRODUCER_CONNECTION_LIST
        header = GetProducerConnectionListRequestHeader(producer_group=group)

        async def ask(address: str) -> list[ClientConnection]:
            try:
                reply = await self.instance.call(address, code, header)
            except BrokerRefused as error:
                # A broker answers 1 for a group that it does not know
                if type(error) is not BrokerRefused or error.code != ResponseCode.SYSTEM_ERROR:
                    raise
                return []
            return read_body(ProducerConnection, reply, address, code).connection_set

        answers = await self.ask_all(await self.masters(brokers=brokers), ask, failures)
        found = sorted(
            ConnectedProducer(group, c.client_id, name, c.client_addr, c.language or "", c.version)
            for name, connections in answers.items()
            for c in connections
        )
        if not found and not failures:
            text = f"no producer of group {group} is connected"
            address = self.instance.name_servers.current
            raise NotFound(ResponseCode.QUERY_NOT_FOUND, text, address, code.name, concluded=True)
        return found
