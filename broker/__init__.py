"""A RocketMQ name server and broker on trio. Names are imported when they are first used.

async with broker.embedded() as cluster:            # in a trio program
with broker.embedded_in_thread() as cluster:        # in any other program
    cluster.namesrv                                 # "127.0.0.1:port"
async with broker.embedded_in_memory() as cluster:  # in a trio program, without sockets, on a virtual clock
    Producer("group", **cluster.client())
"""

# ruff: noqa: I001 - sorting would split imports that contain "as"

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.codec.lazy import lazy_names

if TYPE_CHECKING:
    from rmqcli.broker.config import (
        BrokerConfig as BrokerConfig,
        NamesrvConfig as NamesrvConfig,
        load_config as load_config,
    )
    from rmqcli.broker.errors import ServiceFailed as ServiceFailed
    from rmqcli.broker.namesrv.node import open_name_server as open_name_server
    from rmqcli.broker.node import open_broker as open_broker
    from rmqcli.broker.testing.embedded import (
        Cluster as Cluster,
        embedded as embedded,
        embedded_in_thread as embedded_in_thread,
    )
    from rmqcli.broker.testing.in_memory import (
        MemoryCluster as MemoryCluster,
        embedded_in_memory as embedded_in_memory,
    )
    from rmqcli.broker.testing.in_memory import LOST as LOST, OnRequest as OnRequest
else:
    __all__, __getattr__ = lazy_names(__name__)
