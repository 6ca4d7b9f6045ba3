"""A running copy of a broker in a store folder, without a broker that serves it.

The commit log is copied by the replication protocol, as to a slave; topics, groups, offsets and delay offsets
are copied by requests, every 10 s. The copy is not registered and serves no clients. The folder is a valid
broker folder at any time: it is locked while the copy runs, recovered after a kill, and a broker can start on
it.

Records are checked before they are stored, and the end of the copy is compared with the broker at each
connection. Retention keeps everything: data that the broker deletes stays in the copy.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rmqcli.broker.config import BrokerConfig, config_from_properties
from rmqcli.broker.config.checks import check_values
from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.errors import BrokerError, ConfigError
from rmqcli.broker.filters import Compiler, FilterTable
from rmqcli.broker.ha.peer import LogRange, MasterPeer
from rmqcli.broker.ha.slave import RETRY_SECONDS, Seat, Slave
from rmqcli.broker.ha.tables import TableCopies
from rmqcli.broker.net.network import HA_DISTANCE, TCP, Network, packed_address
from rmqcli.broker.net.peers import Peers
from rmqcli.broker.services.table_files import TableFiles
from rmqcli.broker.store import MessageStore, open_store
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.store.segment_list import adopted_size
from rmqcli.broker.supervisor import Supervisor, open_services
from rmqcli.broker.system import NowMs, system_now_ms
from rmqcli.broker.tables import DelayOffsets, GroupTable, OffsetTable, TopicTable
from rmqcli.codec.ids import MAX_PORT, join_address, split_address
from rmqcli.codec.remoting.signature import Signer
from rmqcli.codec.selector import BloomFilter, Dialect

_JAVA = BrokerConfig()
KEPT_HOURS = 100 * 366 * 24
OFFSETS_MS = 5000
TOLD: Final = (
    *("brokerName", "haListenPort", "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue"),
    *("maxHashSlotNum", "maxIndexNum", "messageDelayLevel"),
)
"""Properties of the broker that a copy needs."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """A running copy of the broker `broker_name`. `master` sends requests to the broker, `slave` has the
    progress of the copy.
    """

    store: MessageStore
    broker_name: str
    master: MasterPeer
    slave: Slave
    tables: TableCopies

    async def log_range(self) -> LogRange:
        """Return the current begin and end of the broker's log. Raises BrokerError or CodecError."""
        return await self.master.log_range()

    async def caught_up(self, end: int) -> None:
        """Return once the copy has the log up to `end`, and tables that were copied after that."""
        await self.slave.reached(end)
        while True:
            if await self.tables.copy():
                return
            await trio.sleep(RETRY_SECONDS)


@asynccontextmanager
async def open_mirror(
    address: str,
    root: Path,
    *,
    ha_address: str | None = None,
    signer: Signer | None = None,
    tls: ssl.SSLContext | None = None,
    ha_tls: ssl.SSLContext | None = None,
    now_ms: NowMs = system_now_ms,
    network: Network = TCP,
    in_thread: InThread = trio.to_thread.run_sync,
    disk: Disk = REAL,
) -> AsyncIterator[Mirror]:
    """Copy the broker at `address` ("host:port") into the folder `root` inside the block.

    `ha_address` is the address of its replication port; by default, it is requested from the broker. `signer`
    signs requests, `tls` is for the connection of requests, `ha_tls` for that of the log, which requires a
    broker of this implementation. Raises BrokerError (the broker does not reply), CodecError, OSError,
    StoreError (folder in use or damaged) or ServiceFailed.
    """
    supervisor = Supervisor()
    peers = Peers("mirror", network=network, supervisor=supervisor, tls=lambda: tls, signer=signer)
    async with open_services(supervisor) as connections:
        await connections.nursery.start(peers.run)
        master = MasterPeer(peers, address)
        told = _told(address, await master.properties())
        seat = Seat(ha_address or _ha_address(address, told.ha_listen_port), address)
        config = await in_thread(_store_config, disk, root, told)
        async with open_store(
            config,
            now_ms=now_ms,
            store_host=await packed_address(*split_address(address)),
            in_thread=in_thread,
            supervisor=supervisor,
            disk=disk,
        ) as store:
            tables = _tables(root, now_ms, in_thread, disk, master)
            await in_thread(partial(tables.files.load, has_messages=store.commit_log_max_offset > 0))
            slave = Slave(
                store,
                lambda: seat,
                lambda _address: master,
                network,
                tls=lambda: ha_tls,
                report_ms=lambda: _JAVA.ha_send_heartbeat_interval,
                silence_ms=lambda: _JAVA.ha_housekeeping_interval,
                connected=tables.want,
            )
            store.add_arrival_listener(tables.arrived)
            try:
                async with open_services(supervisor) as services:
                    tables.files.start(
                        services, store.make_durable, offsets_ms=OFFSETS_MS, delays_ms=OFFSETS_MS
                    )
                    services.start("copy of the log", slave.run)
                    services.start("copy of the tables", lambda: tables.run(first=0))
                    yield Mirror(store, told.broker_name, master, slave, tables)
            finally:
                with trio.CancelScope(shield=True):
                    await tables.files.save_all()


def _told(address: str, properties: Mapping[str, str]) -> BrokerConfig:
    """Read the properties of a broker that a copy needs. Raises BrokerError if they are invalid."""
    try:
        told, _ = config_from_properties(
            BrokerConfig, {name: properties[name] for name in TOLD if name in properties}
        )
        check_values(told)
    except ConfigError as error:
        raise BrokerError(f"{address} cannot be copied: {error}") from None
    return told


def _ha_address(address: str, port: int) -> str:
    host, own = split_address(address)
    return join_address(host, port if 0 < port <= MAX_PORT else own + HA_DISTANCE)


def _store_config(disk: Disk, root: Path, told: BrokerConfig) -> StoreConfig:
    """Return the settings of the copy. Files have the sizes of existing ones, otherwise those of the
    broker."""
    queues = [queue for topic in disk.list(root / "consumequeue") for queue in disk.list(topic)]
    queue_size = max((adopted_size(disk, queue) or 0 for queue in queues), default=0)
    has_index = bool(disk.list(root / "index"))
    return StoreConfig(
        root=root,
        file_reserved_time=KEPT_HOURS,
        clean_file_forcibly_enable=False,
        mapped_file_size_commit_log=adopted_size(disk, root / "commitlog")
        or told.mapped_file_size_commit_log,
        mapped_file_size_consume_queue=queue_size or told.mapped_file_size_consume_queue,
        max_hash_slot_num=None if has_index else told.max_hash_slot_num,
        max_index_num=None if has_index else told.max_index_num,
        message_delay_level=told.message_delay_level,
    )


def _tables(root: Path, now_ms: NowMs, in_thread: InThread, disk: Disk, master: MasterPeer) -> TableCopies:
    topics, groups = TopicTable(now_ms, auto_create=False), GroupTable(now_ms, auto_create=False)
    offsets, delays = OffsetTable(), DelayOffsets()
    filters = FilterTable(
        now_ms,
        bloom=BloomFilter.of(_JAVA.max_error_rate_of_bloom_filter, _JAVA.expect_consumer_num_use_filter),
        forget_after_ms=_JAVA.filter_data_clean_time_span,
        compiler=Compiler(Dialect.V4_9, in_thread),
    )
    files = TableFiles(
        root,
        topics=topics,
        groups=groups,
        offsets=offsets,
        delays=delays,
        filters=filters,
        in_thread=in_thread,
        disk=disk,
    )
    return TableCopies(topics, groups, offsets, delays, files, lambda: master)
