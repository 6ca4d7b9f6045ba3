"""Scripted servers on real ports, for commands whose requests no broker of ours serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio

from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.route import BrokerData, ClusterInfo, KVTable
from rmqcli.codec.codes import RequestCode
from tests.client.scripted import Reply, Server, ok


class Peers(NamedTuple):
    """A name server that knows broker-a and broker-b, which answer as `a` and `b` say."""

    namesrv: str
    a: Server
    b: Server
    addresses: dict[str, str]

    def both(self, code: int, reply: Reply) -> None:
        self.a.replies[code] = self.b.replies[code] = reply

    def clear(self) -> None:
        for server in (self.a, self.b):
            server.replies = {RequestCode.GET_BROKER_RUNTIME_INFO: ok(None, _RUNTIME)}
            server.asked.clear()

    def last(self, code: int) -> tuple[dict[str, str], bytes]:
        """The ext fields and the body of the last request to broker-a with this code."""
        asked = next(one for one in reversed(self.a.asked) if one.code == code)
        return dict(asked.ext_fields or {}), bytes(asked.body)


_RUNTIME = encode_body(KVTable(table={"brokerVersionDesc": "V5_3_3"}))


@asynccontextmanager
async def open_peers() -> AsyncIterator[Peers]:
    """Listens inside the block."""
    names, a, b = Server(), Server(), Server()
    async with trio.open_nursery() as nursery:

        async def listen(server: Server) -> str:
            listeners = await nursery.start(trio.serve_tcp, server.serve, 0)
            return f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"

        addresses = {"broker-a": await listen(a), "broker-b": await listen(b)}
        data = {
            name: BrokerData(cluster="C", broker_name=name, broker_addrs={0: address})
            for name, address in addresses.items()
        }
        info = ClusterInfo(broker_addr_table=data, cluster_addr_table={"C": sorted(data)})
        names.replies[RequestCode.GET_BROKER_CLUSTER_INFO] = ok(None, encode_body(info))
        yield Peers(await listen(names), a, b, addresses)
        nursery.cancel_scope.cancel()
