"""A running name server: its handlers behind a listener, and the expiry of brokers.

A registration lives for `brokerExpiredTime` (120 s). Every `scanNotActiveBrokerInterval` (10 s, the first
time after 5 s) expired registrations are removed and their connections closed (Java
`RouteInfoManager.scanNotActiveBroker`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from broker.clock import NowMs, system_now_ms
from broker.config import expand_path
from broker.config.checks import check_values
from broker.config.namesrv import NamesrvConfig
from broker.disk import REAL, Disk
from broker.namesrv.handlers import bound_handlers
from broker.namesrv.kv_config import KVConfig
from broker.namesrv.state import NameServerState
from broker.net.limits import ServerLimits
from broker.net.network import TCP, Network
from broker.net.server import Server
from broker.net.session import Session
from broker.store.readiness import InThread
from broker.supervisor import Supervisor, open_services
from codec.addresses import join_address

_log = logging.getLogger("broker.namesrv")

FIRST_SCAN_SECONDS = 5.0


class NameServer:
    """A name server that serves. `address` is "ip:port"."""

    def __init__(self, host: str, port: int, state: NameServerState, server: Server) -> None:
        self.host = host
        self.port = port
        self.address = join_address(host, port)
        self.state = state
        self.server = server

    @property
    def config(self) -> NamesrvConfig:
        """The current configuration (code 318 changes it)."""
        return self.state.config


@asynccontextmanager
async def open_name_server(
    config: NamesrvConfig | None = None,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    now_ms: NowMs = system_now_ms,
    network: Network = TCP,
    in_thread: InThread = trio.to_thread.run_sync,
    disk: Disk = REAL,
    supervisor: Supervisor | None = None,
) -> AsyncIterator[NameServer]:
    """Runs a name server inside the block. `port` None is `config.listen_port`, 0 any free port.

    Raises ConfigError, OSError when the address cannot be bound, StoreDamaged when the saved KV entries
    cannot be read, ServiceFailed.
    """
    config = config or NamesrvConfig()
    check_values(config)
    kv_path = expand_path(config.kv_config_path) if config.kv_config_path else None
    kv = KVConfig(kv_path, disk=disk, in_thread=in_thread)
    await in_thread(kv.load)
    state = NameServerState(config, kv, now_ms, disk=disk, in_thread=in_thread)
    listener = network.listen(
        host, config.listen_port if port is None else port, config.server_socket_backlog
    )
    server = Server(
        bound_handlers(state),
        limits=ServerLimits.of(config),
        name="namesrv",
        batches=state,
        supervisor=supervisor,
    )
    try:
        async with open_services(supervisor) as services:
            await services.nursery.start(server.serve, listener.sockets)
            listener.serve_with(server)
            services.start("broker expiry", partial(run_expiry, state))
            yield NameServer(*listener.address, state, server)
    finally:
        listener.close()


async def run_expiry(state: NameServerState) -> None:
    """Removes expired registrations until cancelled."""
    await trio.sleep(FIRST_SCAN_SECONDS)
    while True:
        expire_brokers(state)
        await trio.sleep(state.config.scan_not_active_broker_interval / 1000)


def expire_brokers(state: NameServerState) -> None:
    """Removes expired registrations once."""
    for owner in state.routes.expire(state.now_ms() - state.config.broker_expired_time):
        if isinstance(owner, Session):
            _log.warning("registration of a broker from %s expired", owner.peer_text)
            owner.close()
