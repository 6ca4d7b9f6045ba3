"""Everything that the handlers and services of one broker share.

One value per running broker; only `config` and `config_version` are ever replaced. Everything runs in one thread, so a
handler sees and leaves a consistent state.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.clock import NowMs
from broker.config import BrokerConfig
from broker.store.config import StoreConfig
from broker.tables import (
    ConsumerTable,
    DelayOffsets,
    GroupTable,
    HalfCopies,
    LockTable,
    OffsetTable,
    ProducerTable,
    TopicTable,
)
from codec.bodies.config import DataVersion, TopicConfig
from codec.codes import MessageSysFlag
from codec.remoting.send_reply import SendReplyFrames
from codec.store.delay_levels import DelayLevels

if TYPE_CHECKING:
    from broker.filters import FilterTable
    from broker.net.session import Session
    from broker.services.announcer import Announcer
    from broker.services.holds import Holds
    from broker.services.statistics import Statistics
    from broker.services.store_rates import StoreRates
    from broker.services.table_files import TableFiles
    from broker.store import MessageStore

__all__ = ["BrokerContext"]


@dataclass(slots=True, eq=False)
class BrokerContext:
    """The state of one broker. `address` is "ip:port" as clients reach it, `store_host` the same packed."""

    config: BrokerConfig
    address: str
    store_host: bytes
    now_ms: NowMs
    rng: random.Random
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
    holds: Holds
    statistics: Statistics
    rates: StoreRates
    files: TableFiles
    announcer: Announcer
    started: int
    config_version: DataVersion
    checked_topics: dict[str, TopicConfig] = field(default_factory=dict)
    """Topic configs whose name a send has checked; empty it when the broker's permission changes."""
    watched: set[Session] = field(default_factory=set)
    """Sessions whose end is waited for: those that held a pull or sent a heartbeat."""
    half_copies: HalfCopies = field(default_factory=HalfCopies)
    """Where half messages stand that were written again."""
    id_prefix: str = field(init=False)
    """The part of an offset message id that all messages of this broker share."""
    store_host_flag: int = field(init=False)
    own_host_flags: int = field(init=False)
    """sysFlag bits of the store host, and of a message that the broker itself wrote."""

    reply_ext: dict[str, str] = field(init=False)
    """What every reply to a send carries."""
    send_replies: SendReplyFrames = field(init=False)
    is_slave: bool = field(init=False)
    sync_flush: bool = field(init=False)
    takes_runs: bool = field(init=False)
    """Whether plain sends may be stored together: nothing is to be asked or waited for."""

    def __post_init__(self) -> None:
        self.id_prefix = self.store_host.hex().upper()
        self.reconfigure(self.config)
        self.store_host_flag = 0 if len(self.store_host) == 8 else MessageSysFlag.STORE_HOST_V6
        self.own_host_flags = self.store_host_flag and self.store_host_flag | MessageSysFlag.BORN_HOST_V6

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def name(self) -> str:
        return self.config.broker_name

    def reconfigure(self, config: BrokerConfig) -> None:
        """Takes over a changed configuration; what the hot paths need of it is worked out here."""
        self.config = config
        self.is_slave = config.broker_role == "SLAVE"
        self.sync_flush = config.flush_disk_type == "SYNC_FLUSH"
        self.takes_runs = not (
            self.is_slave or self.sync_flush or config.start_accept_send_request_time_stamp
        )
        self.reply_ext = {"MSG_REGION": config.region_id, "TRACE_ON": "true" if config.trace_on else "false"}
        self.send_replies = SendReplyFrames(self.reply_ext, self.id_prefix)
        self.store.reconfigure(StoreConfig.of(config))
        self.topics.auto_create = config.auto_create_topic_enable
        self.groups.auto_create = config.auto_create_subscription_group
        self.checked_topics.clear()

    def topics_changed(self, configs: Sequence[TopicConfig] = ()) -> None:
        """Saves the topics now and tells the name servers of `configs` soon (of all topics when there are none)."""
        self.files.save_topics()
        self.announcer.announce(configs)

    def groups_changed(self) -> None:
        self.files.save_groups()
