"""Headers of the 5.x controller, which elects masters."""

from __future__ import annotations

from rmqcli.codec.headers.base import Header, Int32, Int64


class AlterSyncStateSetRequestHeader(Header, frozen=True, kw_only=True):
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoke_time: Int64 | None = None


class AlterSyncStateSetResponseHeader(Header, frozen=True, kw_only=True):
    new_sync_state_set_epoch: Int32 | None = None


class ApplyBrokerIdRequestHeader(Header, frozen=True, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None


class ApplyBrokerIdResponseHeader(Header, frozen=True, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None


class CleanControllerBrokerDataRequestHeader(Header, frozen=True, kw_only=True):
    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None


class ElectMasterRequestHeader(Header, frozen=True, kw_only=True):
    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


class ElectMasterResponseHeader(Header, frozen=True, kw_only=True):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class GetMetaDataResponseHeader(Header, frozen=True, kw_only=True):
    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class GetNextBrokerIdRequestHeader(Header, frozen=True, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None


class GetNextBrokerIdResponseHeader(Header, frozen=True, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class GetReplicaInfoRequestHeader(Header, frozen=True, kw_only=True):
    broker_name: str | None = None


class GetReplicaInfoResponseHeader(Header, frozen=True, kw_only=True):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class NotifyBrokerRoleChangedRequestHeader(Header, frozen=True, kw_only=True):
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class RegisterBrokerToControllerRequestHeader(Header, frozen=True, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None
    invoke_time: Int64 | None = None


class RegisterBrokerToControllerResponseHeader(Header, frozen=True, kw_only=True):
    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
