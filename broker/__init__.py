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
    from broker.config import BrokerConfig, NamesrvConfig, load_config
    from broker.namesrv.node import open_name_server
    from broker.node import open_broker
    from broker.testing.embedded import Cluster, embedded, embedded_in_thread
    from broker.testing.in_memory import MemoryCluster, embedded_in_memory
    from broker.testing.memory_network import LOST, OnRequest

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
    "LOST": "broker.testing.memory_network",
    "BrokerConfig": "broker.config",
    "Cluster": "broker.testing.embedded",
    "MemoryCluster": "broker.testing.in_memory",
    "NamesrvConfig": "broker.config",
    "OnRequest": "broker.testing.memory_network",
    "embedded": "broker.testing.embedded",
    "embedded_in_memory": "broker.testing.in_memory",
    "embedded_in_thread": "broker.testing.embedded",
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
