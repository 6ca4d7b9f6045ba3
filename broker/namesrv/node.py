"""A running name server: its handlers behind a listener, and the expiry of brokers.

A registration lives for `brokerExpiredTime` (120 s). Every `scanNotActiveBrokerInterval` (10 s, the first
time after 5 s) expired registrations are removed and their connections closed (Java
`RouteInfoManager.scanNotActiveBroker`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import trio

from rmqcli.broker.config import NamesrvConfig, expand_path
from rmqcli.broker.config.checks import check_values
from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.namesrv import broker_handlers, config_handlers, route_handlers
from rmqcli.broker.namesrv.kv_config import KVConfig
from rmqcli.broker.namesrv.state import NameServerState
from rmqcli.broker.net.dispatch import Handler, Handlers
from rmqcli.broker.net.handling import by_code, registered, serve
from rmqcli.broker.net.limits import ServerLimits
from rmqcli.broker.net.network import TCP, Network
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.net.turns import Jobs, Turns
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.supervisor import Supervisor, open_services
from rmqcli.broker.system import NowMs, system_now_ms
from rmqcli.codec.ids import join_address
from rmqcli.codec.operations import name_server, routes

_log = logging.getLogger("rmqcli.broker.namesrv")

FIRST_SCAN_SECONDS = 5.0

HANDLERS = by_code(
    serve(name_server.PUT_KV_CONFIG, config_handlers.put_kv),
    serve(name_server.GET_KV_CONFIG, config_handlers.get_kv),
    serve(name_server.DELETE_KV_CONFIG, config_handlers.delete_kv),
    serve(name_server.GET_KVLIST_BY_NAMESPACE, config_handlers.list_kv),
    serve(name_server.REGISTER_BROKER, broker_handlers.register_broker),
    serve(name_server.UNREGISTER_BROKER, broker_handlers.unregister_broker),
    serve(name_server.QUERY_DATA_VERSION, broker_handlers.query_data_version),
    serve(name_server.BROKER_HEARTBEAT, broker_handlers.broker_heartbeat),
    serve(routes.WIPE_WRITE_PERM_OF_BROKER, broker_handlers.wipe_write_permission),
    serve(routes.ADD_WRITE_PERM_OF_BROKER, broker_handlers.add_write_permission),
    serve(routes.GET_ROUTEINFO_BY_TOPIC, route_handlers.route),
    serve(routes.GET_BROKER_CLUSTER_INFO, route_handlers.cluster_info),
    serve(routes.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, route_handlers.all_topics),
    serve(routes.DELETE_TOPIC_IN_NAMESRV, route_handlers.delete_topic),
    serve(routes.REGISTER_TOPIC_IN_NAMESRV, route_handlers.register_topic),
    serve(routes.GET_BROKER_MEMBER_GROUP, route_handlers.member_group),
    serve(routes.GET_TOPICS_BY_CLUSTER, route_handlers.topics_of_cluster),
    serve(routes.GET_SYSTEM_TOPIC_LIST_FROM_NS, route_handlers.system_topics),
    serve(routes.GET_UNIT_TOPIC_LIST, route_handlers.unit_topics),
    serve(routes.GET_HAS_UNIT_SUB_TOPIC_LIST, route_handlers.unit_sub_topics),
    serve(routes.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, route_handlers.unit_sub_ununit_topics),
    serve(name_server.UPDATE_NAMESRV_CONFIG, config_handlers.set_config),
    serve(name_server.GET_NAMESRV_CONFIG, config_handlers.get_config),
)
"""The handlers by request code; other requests get response code 3, as in 5.x."""


def bound_handlers(state: NameServerState) -> Handlers:
    """Return the handlers of one name server."""

    def bind(code: int) -> Handler | None:
        registration = registered(HANDLERS, code)
        return None if registration is None else registration.bind(state)

    return Handlers(bind)


def _http_hint(state: NameServerState) -> str:
    """Return the line for a client that speaks HTTP on the port of the name server."""
    clients = "this is the port of a name server; gRPC clients of RocketMQ 5 use"
    if state.grpc_port is None:
        return f"{clients} that of a proxy, or of a broker started with --grpc (default: 8081)"
    return f"{clients} port {state.grpc_port}"


@dataclass(frozen=True, slots=True)
class NameServer:
    """A running name server."""

    host: str
    port: int
    state: NameServerState

    @property
    def address(self) -> str:
        """The "ip:port" that clients use."""
        return join_address(self.host, self.port)


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
    tls: TlsAcceptor | None = None,
) -> AsyncIterator[NameServer]:
    """Run a name server inside the block. If `port` is None, it is `config.listen_port`; 0 means any free
    port.

    Without `tls`, only plain connections are accepted. Raises ConfigError, OSError (it cannot listen),
    StoreDamaged (kvConfig.json is damaged) or ServiceFailed.
    """
    config = config or NamesrvConfig()
    check_values(config)
    acceptor = tls or TlsAcceptor()
    await acceptor.load()
    kv_path = expand_path(config.kv_config_path) if config.kv_config_path else None
    kv = KVConfig(kv_path, disk=disk, in_thread=in_thread)
    await in_thread(kv.load)
    turns = Turns()
    jobs = Jobs(turns)
    state = NameServerState(config, kv, now_ms, disk=disk, in_thread=in_thread, jobs=jobs)
    listener = network.listen(
        host, config.listen_port if port is None else port, config.server_socket_backlog
    )
    state.address = {"bindAddress": host, "listenPort": str(listener.address[1])}
    server = Server(
        bound_handlers(state),
        limits=ServerLimits.of(config),
        name="namesrv",
        batches=state,
        supervisor=supervisor,
        tls=acceptor,
        turns=turns,
        hint=partial(_http_hint, state),
    )
    try:
        async with open_services(supervisor) as services:
            await services.nursery.start(server.serve, listener.sockets)
            listener.serve_with(server)
            services.start("broker expiry", partial(run_expiry, state, turns))
            services.start("namesrv long work", jobs.run)
            yield NameServer(*listener.address, state)
    finally:
        listener.close()


async def run_expiry(state: NameServerState, turns: Turns) -> None:
    """Remove expired registrations until cancelled."""
    await trio.sleep(FIRST_SCAN_SECONDS)
    while True:
        await expire_brokers(state, turns)
        await trio.sleep(state.config.scan_not_active_broker_interval / 1000)


async def expire_brokers(state: NameServerState, turns: Turns) -> None:
    """Remove expired registrations once."""
    steps = state.routes.expire(state.now_ms() - state.config.broker_expired_time)
    for owner in await turns.run(steps):
        if isinstance(owner, Session):
            _log.warning("registration of a broker from %s expired", owner.peer_text)
            owner.close()
