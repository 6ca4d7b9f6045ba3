"""The port of a proxy, its clients of the brokers, and its accounts."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import trio

from rmqcli.broker.auth.control import AccessControl
from rmqcli.broker.auth.files import default_file
from rmqcli.broker.auth.following import AccountFiles
from rmqcli.broker.config import ProxyConfig
from rmqcli.broker.disk import REAL
from rmqcli.broker.net.limits import ServerLimits
from rmqcli.broker.net.network import TCP, Network
from rmqcli.broker.proxy.front import open_front
from rmqcli.broker.store.readiness import InThread
from rmqcli.client import ClientError, Producer
from rmqcli.client.instance import ClientInstance
from rmqcli.codec.operations.routes import GET_BROKER_CLUSTER_INFO
from rmqcli.proxy.remote import RemoteBackend

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

    `options` are those of its clients of the brokers (InstanceOptions). `tls` has the TLS properties of the
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
            access = None
            if config.acl_enable:
                files = AccountFiles(default_file(config), REAL, in_thread, instance.now_ms)
                access = AccessControl(instance.now_ms, files)
                await files.load()
                access.refresh()
                instance.start(files.watch, "accounts")
            front = open_front(
                RemoteBackend(instance, producer, config, access),
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
    """Warn if no name server responds, which would otherwise be noticed by clients only."""
    try:
        await instance.ask_name_server(GET_BROKER_CLUSTER_INFO, None)
    except ClientError as error:
        log.warning("%s; calls fail until it responds", error)
