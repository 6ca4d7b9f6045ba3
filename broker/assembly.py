"""Creation of the state of a broker: tables, statistics, and their connections, before anything runs."""

from __future__ import annotations

import random
import ssl
from collections.abc import Mapping, Sequence

import trio

from rmqcli.broker.auth.users import Users
from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.config.inner_account import own_signer
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.filters import Compiler, FilterTable
from rmqcli.broker.ha.master import Master
from rmqcli.broker.handlers.pull import answer_hold
from rmqcli.broker.net.network import TCP, Network
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.net.turns import Jobs, Turns
from rmqcli.broker.services.holds import Hold, Holds
from rmqcli.broker.services.pop.engine import Pops
from rmqcli.broker.services.registration import Announcer, Registration
from rmqcli.broker.services.routes import TopicRoutes
from rmqcli.broker.services.statistics import Statistics, StoreRates
from rmqcli.broker.services.table_files import TableFiles
from rmqcli.broker.services.timers import Timers
from rmqcli.broker.store import MessageStore
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.supervisor import Supervisor
from rmqcli.broker.system import NowMs
from rmqcli.broker.tables import (
    ConsumerTable,
    DelayOffsets,
    GroupTable,
    LockTable,
    OffsetTable,
    ProducerTable,
    RequestModes,
    TopicTable,
)
from rmqcli.broker.tables.configs import first_version
from rmqcli.broker.tables.topics import system_topics
from rmqcli.codec.bodies.config import TopicConfig
from rmqcli.codec.selector import BloomFilter, Dialect
from rmqcli.codec.store.delay_levels import DelayLevels


def assemble(
    config: BrokerConfig,
    address: str,
    store_host: bytes,
    now_ms: NowMs,
    rng: random.Random,
    store: MessageStore,
    in_thread: InThread = trio.to_thread.run_sync,
    network: Network = TCP,
    supervisor: Supervisor | None = None,
    disk: Disk = REAL,
    tls: TlsAcceptor | None = None,
) -> tuple[BrokerContext, Registration]:
    """Create the state of a broker and its registration, which refer to each other. Raises ConfigError."""
    root = store.config.root
    topics = TopicTable(now_ms, _system_topics(config), auto_create=config.auto_create_topic_enable)
    groups = GroupTable(now_ms, auto_create=config.auto_create_subscription_group)
    offsets, delay_offsets, request_modes = OffsetTable(), DelayOffsets(), RequestModes()
    turns = Turns()
    jobs = Jobs(turns)
    filters = _filters(config, now_ms, in_thread)

    def order_topics(table: Mapping[str, str]) -> None:
        if not broker.is_slave and topics.set_order_topics(table):
            broker.files.topics_changed()

    async def register(configs: Sequence[TopicConfig] | None) -> None:
        await registration.register(topics.wrapper(configs))

    def answer(hold: Hold) -> None:
        if callable(hold.request):  # a call over another protocol, which reads again itself
            hold.request()
        else:
            answer_hold(broker, hold)

    def peers_tls() -> ssl.SSLContext | None:
        return None if tls is None else tls.peers

    registration = Registration(
        lambda: broker.config,
        address,
        topics.wrapper,
        order_topics,
        network,
        supervisor,
        turns,
        peers_tls,
        own_signer(config),
    )
    broker = BrokerContext(
        config=config,
        address=address,
        store_host=store_host,
        now_ms=now_ms,
        rng=rng,
        store=store,
        topics=topics,
        groups=groups,
        offsets=offsets,
        consumers=ConsumerTable(),
        producers=ProducerTable(),
        locks=LockTable(),
        filters=filters,
        delay_levels=DelayLevels(config.message_delay_level),
        delay_offsets=delay_offsets,
        request_modes=request_modes,
        holds=Holds(answer, jobs),
        statistics=Statistics(now_ms, config.broker_cluster_name),
        rates=StoreRates(now_ms),
        files=TableFiles(
            root,
            topics=topics,
            groups=groups,
            offsets=offsets,
            delays=delay_offsets,
            filters=filters,
            request_modes=request_modes,
            in_thread=in_thread,
            disk=disk,
            turns=turns,
        ),
        users=Users(root, config.broker_cluster_name, disk, in_thread, turns),
        ha=Master(lambda: broker.config, store, supervisor, tls),
        announcer=Announcer(register if config.namesrv_addr else None),
        routes=TopicRoutes(lambda: broker.config.namesrv_addr, registration.peers),
        started=now_ms(),
        config_version=first_version(now_ms),
        turns=turns,
        jobs=jobs,
    )
    broker.timers = Timers(broker, root, in_thread, disk)
    broker.pops = Pops(broker, root, in_thread, disk)
    return broker, registration


def _filters(config: BrokerConfig, now_ms: NowMs, in_thread: InThread) -> FilterTable:
    bloom = BloomFilter.of(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
    return FilterTable(
        now_ms,
        bloom=bloom,
        forget_after_ms=config.filter_data_clean_time_span,
        compiler=Compiler(Dialect.V4_9, in_thread),
    )


def _system_topics(config: BrokerConfig) -> list[TopicConfig]:
    return system_topics(
        cluster=config.broker_cluster_name,
        broker_name=config.broker_name,
        auto_create=config.auto_create_topic_enable,
        default_queues=config.default_topic_queue_nums,
        cluster_topic=config.cluster_topic_enable,
        broker_topic=config.broker_topic_enable,
        trace_topic=config.msg_trace_topic_name if config.trace_topic_enable else None,
    )
