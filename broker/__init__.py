"""A name server and broker on trio. Everything named here is imported when first used.

async with broker.embedded() as cluster:            # in a trio program
with broker.embedded_in_thread() as cluster:        # anywhere else
    cluster.namesrv                                 # "127.0.0.1:port"
async with broker.embedded_in_memory() as cluster:  # in a trio program, without sockets, for a virtual clock
    Producer("group", **cluster.client())
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.cluster import Cluster, embedded, embedded_in_thread
    from broker.config import BrokerConfig, NamesrvConfig, load_config
    from broker.memory_cluster import MemoryCluster, embedded_in_memory
    from broker.memory_network import LOST, OnRequest
    from broker.namesrv.node import open_name_server
    from broker.node import open_broker

__all__ = [
    "LOST",
    "BrokerConfig",
    "Cluster",
    "MemoryCluster",
    "NamesrvConfig",
    "OnRequest",
    "embedded",
    "embedded_in_memory",
    "embedded_in_thread",
    "load_config",
    "open_broker",
    "open_name_server",
]

_HOMES = {
    "LOST": "broker.memory_network",
    "BrokerConfig": "broker.config",
    "Cluster": "broker.cluster",
    "MemoryCluster": "broker.memory_cluster",
    "NamesrvConfig": "broker.config",
    "OnRequest": "broker.memory_network",
    "embedded": "broker.cluster",
    "embedded_in_memory": "broker.memory_cluster",
    "embedded_in_thread": "broker.cluster",
    "load_config": "broker.config",
    "open_broker": "broker.node",
    "open_name_server": "broker.namesrv.node",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'broker' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
