"""Brokers: the clusters of a name server, addresses, runtime information."""

from __future__ import annotations

from collections.abc import Collection

from codec.bodies.route import ClusterInfo
from codec.codes import MASTER_ID
from codec.operations.brokers import GET_BROKER_RUNTIME_INFO
from codec.operations.routes import GET_BROKER_CLUSTER_INFO
from rmqcli.client.admin.area import Area, gather
from rmqcli.client.admin.values import BrokerSummary
from rmqcli.client.errors import ClientError, NotFound


class BrokerAdmin(Area):
    async def cluster_info(self) -> ClusterInfo:
        """All clusters, brokers and addresses that the name server knows (code 106)."""
        info = (await self.instance.ask_name_server(GET_BROKER_CLUSTER_INFO, None)).body
        self.instance.routes.learn({name: data.broker_addrs for name, data in info.broker_addr_table.items()})
        return info

    async def masters(self, *, brokers: Collection[str] = (), cluster: str | None = None) -> dict[str, str]:
        """Broker name → master address of the named brokers, of a cluster, or of all. NotFound if unknown."""
        info = await self.cluster_info()
        table = info.broker_addr_table
        names = set(table)
        if cluster is not None:
            if cluster not in info.cluster_addr_table:
                raise self._unknown(f"no cluster {cluster}", info.cluster_addr_table)
            names &= set(info.cluster_addr_table[cluster])
        for name in brokers:
            if name not in names:
                raise self._unknown(f"no broker {name}", names)
        wanted = sorted(set(brokers) or names)
        found = {name: table[name].broker_addrs.get(MASTER_ID) for name in wanted}
        masters = {name: address for name, address in found.items() if address}
        if not masters:
            raise self._unknown("no broker with a master", names)
        return masters

    def _unknown(self, what: str, known: Collection[str]) -> ClientError:
        text = f"{what}; known: {', '.join(sorted(known)) or 'none'}"
        return self.absent(NotFound, text, GET_BROKER_CLUSTER_INFO)

    async def runtime_info(self, address: str) -> dict[str, str]:
        """The runtime table of the broker at `address` (code 28); all values are text."""
        return dict((await self.instance.ask(address, GET_BROKER_RUNTIME_INFO, None, None)).body.table)

    async def summaries(self) -> list[BrokerSummary]:
        """Every address of every broker, sorted, with its runtime table or the error of asking for it."""
        info = await self.cluster_info()
        seats = sorted(
            (data.cluster, name, broker_id, address)
            for name, data in info.broker_addr_table.items()
            for broker_id, address in data.broker_addrs.items()
        )
        runtime, failures = await gather({seat[3]: None for seat in seats}, self.runtime_info)
        return [BrokerSummary(*seat, runtime.get(seat[3]), failures.get(seat[3])) for seat in seats]
