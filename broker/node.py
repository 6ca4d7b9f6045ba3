"""A running broker: store, tables, services, listener, and registration at the name servers.

Order of a start: bind the address (message ids contain the port), lock and recover the store, load the
tables, serve, register. Order of a stop, also when cancelled: unregister, close the connections, store the
ends of transactions that wait for the disk, save the tables, close the store.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio
from msgspec.structs import replace

from rmqcli.broker.assembly import assemble
from rmqcli.broker.auth.opening import open_access
from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.config.access import check_access, first_users
from rmqcli.broker.config.checks import check_values
from rmqcli.broker.config.tls import check_ha_tls
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.ha.follower import Follower
from rmqcli.broker.handlers import direct_readers, handler_table, run_table
from rmqcli.broker.net.busy_poll import BusyPoll
from rmqcli.broker.net.limits import ServerLimits
from rmqcli.broker.net.network import (
    TCP,
    Listener,
    Network,
    open_ha_listener,
    open_listeners,
    own_address,
    packed_address,
    trio_listeners,
)
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.services.clients import watch_clients
from rmqcli.broker.services.delay import DelayService
from rmqcli.broker.services.put import topics_at
from rmqcli.broker.services.registration import Registration
from rmqcli.broker.services.transactions import check_transactions, record_all_ends
from rmqcli.broker.store import MessageStore, open_store
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.supervisor import Services, Supervisor, open_services
from rmqcli.broker.system import NowMs, system_now_ms
from rmqcli.codec.ids import join_address
from rmqcli.codec.selector import parse_sql92

UNREGISTER_SECONDS = 2.0
"""Longest time that a stop waits for name servers."""


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A running broker. `address` is the "ip:port" that clients use; `context.config.listen_port` is the port that
    it listens on."""

    address: str
    store_path: Path
    context: BrokerContext
    service_errors: Mapping[str, int]
    """The number of OSErrors of each service that had any."""

    @property
    def store(self) -> MessageStore:
        return self.context.store


@asynccontextmanager
async def open_broker(
    config: BrokerConfig,
    *,
    now_ms: NowMs = system_now_ms,
    rng: random.Random | None = None,
    network: Network = TCP,
    in_thread: InThread = trio.to_thread.run_sync,
    disk: Disk = REAL,
    supervisor: Supervisor | None = None,
    needs_vip: bool = True,
    tls: TlsAcceptor | None = None,
) -> AsyncIterator[BrokerNode]:
    """Run a broker, registered once, inside the block.

    Without `needs_vip`, a port of the VIP channel or of replication that is in use is only logged. Without
    `tls`, only plain connections are accepted. Raises ConfigError, OSError (it cannot listen), VipPortTaken,
    HaPortTaken, StoreError (folder in use or damaged) or ServiceFailed.
    """
    check_values(config)
    supervisor = supervisor or Supervisor()
    acceptor = tls or TlsAcceptor()
    await acceptor.load()
    check_ha_tls(config, acceptor.config)
    check_access(config)
    first_users(config)
    listeners = open_listeners(
        network,
        config.bind_address,
        config.listen_port,
        config.server_socket_backlog,
        vip=config.vip_channel_enabled,
        needs_vip=needs_vip,
    )
    ha_listener: Listener | None = None
    try:
        bound, port = listeners[0].address
        ha_listener = open_ha_listener(
            network,
            config.bind_address,
            config.listen_port,
            config.server_socket_backlog,
            is_needed=needs_vip or config.broker_role == "SYNC_MASTER",
        )
        if ha_listener is not None:
            # As in Java, which sets this at each start, whatever the file says.
            config = replace(config, ha_listen_port=ha_listener.address[1])
        config = replace(config, listen_port=port)
        host, told = config.broker_ip1 or own_address(bound), config.advertised_port or port
        settings = StoreConfig.of(config)
        store_host = await packed_address(host, told)
        async with open_store(
            settings,
            now_ms=now_ms,
            store_host=store_host,
            in_thread=in_thread,
            supervisor=supervisor,
            disk=disk,
        ) as store:
            broker, registration = assemble(
                config,
                join_address(host, told),
                store_host,
                now_ms,
                rng or random.Random(),
                store,
                in_thread,
                network,
                supervisor,
                disk,
                acceptor,
            )
            delays = DelayService(broker)
            broker.access = await open_access(config, broker.users, disk, in_thread, now_ms)
            if broker.access is not None:
                broker.access.topics_at = partial(topics_at, broker)
                broker.access.listeners.append(partial(release_all, broker))
            await in_thread(load_tables, broker, broker.pops.revival.steady_ms())
            listen_to_store(broker, delays)
            stop = trio.Event()
            try:
                async with open_services(supervisor) as services:
                    await services.nursery.start(
                        _run,
                        broker,
                        delays,
                        registration,
                        listeners,
                        ha_listener,
                        stop,
                        in_thread,
                        network,
                        supervisor,
                        acceptor,
                    )
                    try:
                        yield BrokerNode(broker.address, settings.root, broker, supervisor.errors)
                    finally:
                        stop.set()
            finally:
                with trio.CancelScope(shield=True):
                    await save_state(broker)
    finally:
        for listener in [*listeners, *([ha_listener] if ha_listener is not None else [])]:
            listener.close()


def load_tables(broker: BrokerContext, steady_ms: int) -> None:
    """Load the saved tables. `steady_ms` is the time of popped messages. Raises StoreDamaged. Blocks."""
    broker.files.load(has_messages=broker.store.commit_log_max_offset > 0)
    broker.timers.load()
    broker.pops.load(steady_ms)


async def save_state(broker: BrokerContext) -> None:
    """Store all state that is only in memory, before the store closes."""
    await record_all_ends(broker)
    with suppress(OSError):
        await broker.pops.save()
    await broker.files.save_all()
    await broker.timers.close()


def release_all(broker: BrokerContext) -> None:
    """Answer all requests that wait for messages, because the permissions of their senders may have changed."""
    broker.holds.release_all()
    broker.pops.waiting.release_all()


def start_services(broker: BrokerContext, delays: DelayService, services: Services) -> None:
    """Start the services of the broker itself."""
    config = broker.config
    delays.start(services)
    services.start("timers", broker.timers.run)
    services.start("pops", broker.pops.revival.run)
    services.start("save pops", partial(broker.pops.run_saves, config.flush_consumer_offset_interval))
    services.start("long work", broker.jobs.run)
    services.start("held pulls", broker.holds.run)
    services.start("client expiry", partial(watch_clients, broker))
    services.start("transaction checks", partial(check_transactions, broker))
    services.start("statistics", partial(broker.statistics.run, broker.turns))
    services.start("store rates", broker.rates.run)
    services.start("announcer", broker.announcer.run)
    if broker.access is not None and broker.access.files is not None:
        services.start("access control", broker.access.files.watch)
    broker.files.start(
        services,
        broker.store.make_durable,
        offsets_ms=config.flush_consumer_offset_interval,
        delays_ms=config.flush_delay_offset_interval,
    )


def listen_to_store(broker: BrokerContext, delays: DelayService) -> None:
    """Connect broker and store once the tables are loaded, so that arrivals wake delay levels, timers, held
    pulls and replication."""

    def bit_map(topic: str, properties: Mapping[str, str]) -> bytes | None:
        if not broker.config.enable_calc_filter_bit_map:
            return None
        return broker.filters.bit_map(topic, {**properties, **broker.own_properties.values})

    broker.store.set_bit_map(bit_map)
    delays.correct_offsets()
    broker.store.add_arrival_listener(broker.holds.arrived)
    broker.store.add_arrival_listener(broker.ha.arrived)
    broker.store.add_arrival_listener(delays.arrived)
    broker.store.add_arrival_listener(broker.timers.arrived)
    broker.store.add_arrival_listener(broker.pops.arrived)


async def _run(
    broker: BrokerContext,
    delays: DelayService,
    registration: Registration,
    listeners: Sequence[Listener],
    ha_listener: Listener | None,
    stop: trio.Event,
    in_thread: InThread,
    network: Network,
    supervisor: Supervisor | None,
    tls: TlsAcceptor,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run listeners and services until `stop` is set.

    Once started, this is shielded: a cancellation sets `stop` in `open_broker`, so that the stop is orderly.
    """
    config = broker.config
    with trio.CancelScope() as scope:
        async with open_services(supervisor) as services:
            nursery = services.nursery
            start_services(broker, delays, services)
            if config.enable_property_filter:
                nursery.start_soon(in_thread, parse_sql92, "TRUE")  # imports lark before a request needs it
            # On networks other than TCP, the clock is virtual and does not move while the loop polls.
            server = Server(
                handler_table(broker),
                limits=ServerLimits.of(config),
                batches=broker.store,
                direct=direct_readers(gated=broker.access is not None),
                gate=None if broker.access is None else broker.access.gate,
                runs=run_table(broker),
                turns=broker.turns,
                fast_failure=broker.fast_failure,
                supervisor=supervisor,
                tls=tls,
                hint=partial(_http_hint, broker),
                busy_poll=BusyPoll(lambda: broker.config.busy_poll_micros / 1e6) if network is TCP else None,
            )
            await nursery.start(server.serve, [sock for one in listeners for sock in one.sockets])
            for listener in listeners:
                listener.serve_with(server)
            if ha_listener is not None:
                await nursery.start(broker.ha.run, trio_listeners(ha_listener))
                ha_listener.serve_with(broker.ha)
            if broker.is_slave:
                follower = Follower(broker, network, supervisor, lambda: tls.peers)
                registration.on_master = follower.learn
                await follower.start(services)
            if config.namesrv_addr:
                await nursery.start(registration.peers.run)
                await registration.register()
                services.start("registration", registration.run)
            scope.shield = True
            task_status.started()
            await stop.wait()
            with trio.move_on_after(UNREGISTER_SECONDS):
                await registration.unregister()


def _http_hint(broker: BrokerContext) -> str:
    """Return the line for a client that speaks HTTP on the port of the broker."""
    clients = "gRPC clients of RocketMQ 5 use"
    if broker.grpc_port is None:
        return f"this is the remoting port of a broker; {clients} another port, which --grpc opens"
    return f"this is the remoting port of a broker; {clients} its port {broker.grpc_port}"
