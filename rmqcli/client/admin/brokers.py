"""Brokers: the list of a cluster with what each says of itself."""

from __future__ import annotations

from codec.bodies import KVTable
from codec.codes import RequestCode
from rmqcli.client.admin.base import AdminBase, gather, read_body
from rmqcli.client.admin.values import BrokerSummary

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
