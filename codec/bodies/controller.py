"""Replication and the 5.x controller. Offsets are commit-log offsets in bytes, times epoch ms."""

from __future__ import annotations

from rmqcli.codec.bodies.base import Body, Int32, Int64
from rmqcli.codec.bodies.route import BrokerMemberGroup


class HAConnectionRuntimeInfo(Body, frozen=True):
    """A slave, as its master sees it."""

    addr: str | None = None
    slave_ack_offset: Int64 = 0
    diff: Int64 = 0
    in_sync: bool = False
    transferred_byte_in_second: Int64 = 0
    transfer_from_where: Int64 = 0


class HAClientRuntimeInfo(Body, frozen=True):
    """A slave's own connection to its master."""

    master_addr: str | None = None
    transferred_byte_in_second: Int64 = 0
    max_offset: Int64 = 0
    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_flush_offset: Int64 = 0
    activated: bool = False


class HARuntimeInfo(Body, frozen=True):
    master: bool = False
    master_commit_log_max_offset: Int64 = 0
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = []
    ha_client_runtime_info: HAClientRuntimeInfo | None = None


class SyncStateSet(Body, frozen=True):
    """The ids of the brokers that are in sync."""

    sync_state_set: list[Int64] = []
    sync_state_set_epoch: Int32 = 0


class ElectMasterResponseBody(Body, frozen=True):
    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Int64] = []


class ReplicaIdentity(Body, frozen=True):
    """One replica of a broker name."""

    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None
    alive: bool | None = None


class ReplicasInfo(Body, frozen=True):
    """The replicas of a broker name."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    in_sync_replicas: list[ReplicaIdentity] = []
    not_in_sync_replicas: list[ReplicaIdentity] = []


class BrokerReplicasInfo(Body, frozen=True):
    replicas_info_table: dict[str, ReplicasInfo] = {}


class EpochEntry(Body, frozen=True):
    """The range of the commit log that one master wrote."""

    epoch: Int32 = 0
    start_offset: Int64 = 0
    end_offset: Int64 = 0


class EpochEntryCache(Body, frozen=True):
    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 = 0
    epoch_list: list[EpochEntry] = []
    max_offset: Int64 = 0
