"""The state shared by the handlers and services of one broker.

Only `config` and `config_version` are replaced. Everything runs in one thread, so every handler sees and
leaves a consistent state.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import trio

from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.fast_failure import FastFailure, limits_of
from rmqcli.broker.net.turns import Jobs, Turns
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.system import MovableClock, NowMs, Timer
from rmqcli.broker.tables import (
    ConsumerTable,
    DelayOffsets,
    GroupTable,
    HalfCopies,
    LockTable,
    NewOffsets,
    OffsetTable,
    ProducerTable,
    RequestModes,
    TopicTable,
)
from rmqcli.codec.bodies.config import DataVersion, TopicConfig
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.remoting.reply_head import SendReplyFrames
from rmqcli.codec.store.delay_levels import DelayLevels

if TYPE_CHECKING:
    from rmqcli.broker.auth.control import AccessControl
    from rmqcli.broker.auth.users import Users
    from rmqcli.broker.filters import FilterTable
    from rmqcli.broker.ha.master import Master
    from rmqcli.broker.ha.slave import Slave
    from rmqcli.broker.net.session import Session
    from rmqcli.broker.services.holds import Holds
    from rmqcli.broker.services.pop.engine import Pops
    from rmqcli.broker.services.registration import Announcer
    from rmqcli.broker.services.routes import TopicRoutes
    from rmqcli.broker.services.statistics import Statistics, StoreRates
    from rmqcli.broker.services.table_files import TableFiles
    from rmqcli.broker.services.timers import Timers
    from rmqcli.broker.store import MessageStore


class OwnProperties:
    """The properties that a broker adds to each stored message; those without a value are omitted."""

    __slots__ = ("text", "values")

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = {name: value for name, value in values.items() if value}
        self.text = encode_properties(self.values)


@dataclass(slots=True, eq=False)
class BrokerContext:
    """The state of one broker. `address` is the "ip:port" that clients use, `store_host` the same in packed
    form."""

    # The broker itself
    config: BrokerConfig
    config_version: DataVersion
    address: str
    store_host: bytes
    now_ms: NowMs
    rng: random.Random
    started: int

    # Its messages, and the tables that requests read and change (rmqcli.broker.tables)
    store: MessageStore
    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    consumers: ConsumerTable
    producers: ProducerTable
    locks: LockTable
    filters: FilterTable
    delay_levels: DelayLevels
    delay_offsets: DelayOffsets
    request_modes: RequestModes

    # Services that run beside the handlers (rmqcli.broker.services, rmqcli.broker.ha)
    holds: Holds
    statistics: Statistics
    rates: StoreRates
    files: TableFiles
    users: Users
    announcer: Announcer
    routes: TopicRoutes
    ha: Master

    # Turns of the event loop
    turns: Turns
    jobs: Jobs

    grpc_port: int | None = field(default=None, init=False)
    """The port for gRPC clients, while there is one."""
    timers: Timers = field(init=False)
    """The waiting timer messages; set once the context exists."""
    pops: Pops = field(init=False)
    """The popped messages; set once the context exists."""
    access: AccessControl | None = None
    """None without access control."""
    slave: Slave | None = None
    """The copy of the master's log; None on a master."""
    clock_moved: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)
    """Services that wait for a time of `now_ms` park here, because tests may move the clock."""
    timer: Timer = perf_counter
    """Measures the durations of puts and gets."""

    # Limits on the resources that clients use
    fast_failure: FastFailure = field(default_factory=FastFailure)
    new_offsets: NewOffsets = field(init=False)
    created: dict[Session, int] = field(default_factory=dict)
    """The number of topics and groups that each connection has created by using them."""

    # State of requests that a later request or event ends
    checked_topics: dict[str, TopicConfig] = field(default_factory=dict)
    """Topics that a send has checked. Clear it when the broker's permission changes."""
    notifying: dict[str, bool] = field(default_factory=dict)
    """Groups whose members are being notified; True if they must be notified once more."""
    watched: set[Session] = field(default_factory=set)
    """Sessions whose end is handled: those that held a pull or sent a heartbeat."""
    half_copies: HalfCopies = field(default_factory=HalfCopies)
    """The newest copies of half messages that were copied."""
    unrecorded_ends: dict[int, None] = field(default_factory=dict)
    """Queue offsets of ended half messages whose op messages are not stored yet, in order."""

    # Derived by `reconfigure` for the hot paths
    id_prefix: str = field(init=False)
    """The prefix of the offset message ids of this broker."""
    reply_ext: dict[str, str] = field(init=False)
    """The ext fields of every reply to a send."""
    own_properties: OwnProperties = field(init=False)
    send_replies: SendReplyFrames = field(init=False)
    is_slave: bool = field(init=False)
    sync_flush: bool = field(init=False)
    is_sync_master: bool = field(init=False)
    waits_for_store: bool = field(init=False)
    """True if the reply to a send waits for the disk, for a slave, or for both."""
    takes_runs: bool = field(init=False)
    """True if plain sends can be stored together, because none of them needs a check."""

    def __post_init__(self) -> None:
        self.new_offsets = NewOffsets(self.offsets, self.topics, self.groups, self.consumers)
        self.id_prefix = self.store_host.hex().upper()
        self.reconfigure(self.config)

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def name(self) -> str:
        return self.config.broker_name

    async def sleep(self, seconds: float) -> None:
        """Sleep for this time, or until `now_ms` is moved."""
        with trio.move_on_after(seconds):
            await self.clock_moved.park()

    def advance_clock(self, milliseconds: int) -> None:
        """Move the clock of a test forward, so that everything due by then happens now.

        Raises Refusal if `now_ms` is not a MovableClock, or cannot advance that far.
        """
        if not isinstance(self.now_ms, MovableClock):
            raise Refusal(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "the clock of this broker does not move: only those of rmq up without --store, and of tests, do",
            )
        try:
            self.now_ms.advance(milliseconds)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
        self.pops.revival.hurry(milliseconds)
        self.clock_moved.unpark_all()

    def offset_msg_id(self, physical_offset: int) -> str:
        """Return the id of the message at an offset, like `rmqcli.codec.ids.offset_msg_id`."""
        return f"{self.id_prefix}{physical_offset:016X}"

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply a changed configuration, and derive from it the values that the hot paths need."""
        self.config = config
        self.is_slave = config.broker_role == "SLAVE"
        self.sync_flush = config.flush_disk_type == "SYNC_FLUSH"
        self.is_sync_master = config.broker_role == "SYNC_MASTER"
        self.waits_for_store = self.sync_flush or self.is_sync_master
        self.takes_runs = not (self.is_slave or config.start_accept_send_request_time_stamp)
        self.reply_ext = {"MSG_REGION": config.region_id, "TRACE_ON": "true" if config.trace_on else "false"}
        self.own_properties = OwnProperties(
            {PropertyName.CLUSTER: config.broker_cluster_name, **self.reply_ext}
        )
        self.send_replies = SendReplyFrames(self.reply_ext, self.id_prefix)
        self.store.reconfigure(StoreConfig.of(config))
        self.fast_failure.set_limits(*limits_of(config))
        self.topics.auto_create = config.auto_create_topic_enable
        self.groups.auto_create = config.auto_create_subscription_group
        self.checked_topics.clear()

    def topics_changed(self, configs: Sequence[TopicConfig] = ()) -> None:
        """Make the request's reply wait until the topics are saved; announce `configs`, or all topics,
        soon."""
        self.files.topics_changed()
        self.store.barrier = self.files.save_changed
        self.announcer.announce(configs)

    async def topics_known(self) -> None:
        """Return once the topics are saved and the name servers know them. Raises OSError if the disk
        refuses."""
        await self.files.save_changed()
        await self.announcer.settled()
        # The reply of a name server may have changed which topics are ordered.
        await self.files.save_changed()

    def groups_changed(self) -> None:
        """Make the request's reply wait until the groups are saved."""
        self.files.groups_changed()
        self.store.barrier = self.files.save_changed
