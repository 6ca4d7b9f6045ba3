"""Clusters in memory with a proxy in front of all their brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rmqcli.broker.config import ProxyConfig
from rmqcli.broker.testing.in_memory import MemoryCluster, embedded_in_memory
from rmqcli.client import Admin
from rmqcli.proxy.server import open_proxy
from tests.broker.proxy.calls import GRPC_PORT

BROKERS = {"broker-a", "broker-b"}


@asynccontextmanager
async def proxy_of(
    cluster: MemoryCluster, options: Mapping[str, Any] = {}, **config: Any
) -> AsyncIterator[None]:
    """A proxy of a cluster on GRPC_PORT, whose client has these options."""

    async def in_place(function: Any, *arguments: Any, **_options: Any) -> Any:
        return function(*arguments)

    proxy = open_proxy(
        ProxyConfig(bind_address="127.0.0.1", listen_port=GRPC_PORT, **config),
        {**cluster.client(), "namespace": "", **options},
        network=cluster.surroundings.network,
        in_thread=in_place,
        tls={"tls.server.mode": "disabled"},
    )
    async with proxy:
        yield


@asynccontextmanager
async def two_brokers(**settings: Any) -> AsyncIterator[MemoryCluster]:
    """A cluster of broker-a and broker-b with a proxy."""
    async with (
        embedded_in_memory(**settings) as cluster,
        cluster.broker(broker_name="broker-b", **settings),
        proxy_of(cluster),
    ):
        yield cluster


async def create(cluster: Any, *names: str) -> None:
    async with Admin(**cluster.client()) as admin:
        for name in names:
            await admin.topics.create(name)
