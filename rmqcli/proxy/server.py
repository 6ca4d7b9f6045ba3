"""The port of a proxy, its clients for the brokers, and its accounts and users."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import trio

from rmqcli.broker.auth.opening import control
from rmqcli.broker.config import ProxyConfig
from rmqcli.broker.config.access import check_access
from rmqcli.broker.disk import REAL
from rmqcli.broker.net.limits import ServerLimits
from rmqcli.broker.net.network import TCP, Network
from rmqcli.broker.proxy.front import open_front
from rmqcli.broker.store.readiness import InThread
from rmqcli.client import ClientError, Producer
from rmqcli.client.instance import ClientInstance
from rmqcli.codec.operations.routes import GET_BROKER_CLUSTER_INFO
from rmqcli.proxy.remote import RemoteBackend
from rmqcli.proxy.users import ClusterUsers

log = logging.getLogger("rmqcli.proxy")

GROUP: Final = "rmq_proxy"
"""The producer group of the proxy itself."""


@asynccontextmanager
async def open_proxy(
    config: ProxyConfig,
    options: Mapping[str, Any],
    *,
    tls: Mapping[str, str] = {},
    network: Network = TCP,
    in_thread: InThread = trio.to_thread.run_sync,
) -> AsyncIterator[int]:
    """Serve gRPC clients of a cluster inside the block; yield the port.

    `options` are those of its clients for the brokers (InstanceOptions). `tls` has the TLS properties of the
    port. Raises OSError, ConfigError.
    """
    async with ClientInstance(**options) as instance:
        producer = Producer(
            GROUP,
            instance=instance,
            namespace="",
            compression=None,
            max_message_size=config.max_message_size,
        )
        async with producer:
            check_access(config)
            users = ClusterUsers(instance)
            if config.authentication_enabled:
                await users.follow()
                instance.start(users.watch, "users")
            access = await control(config, users, REAL, in_thread, instance.now_ms)
            if access is not None and access.files is not None:
                instance.start(access.files.watch, "accounts")
            front = open_front(
                RemoteBackend(instance, producer, config, access, users),
                config.bind_address,
                config.listen_port,
                limits=ServerLimits.of(config),
                backlog=config.server_socket_backlog,
                network=network,
                tls=tls,
                in_thread=in_thread,
            )
            async with front as port:
                instance.start(partial(_look_for_name_server, instance), "name server")
                yield port


async def _look_for_name_server(instance: ClientInstance) -> None:
    """Warn if no name server responds, which otherwise only clients would notice."""
    try:
        await instance.ask_name_server(GET_BROKER_CLUSTER_INFO, None)
    except ClientError as error:
        log.warning("%s; calls fail until it responds", error)
