"""Headers of the 5.x controller (broker replica election)."""

from __future__ import annotations

from codec.headers.base import Header, Int32, Int64


class AlterSyncStateSetRequestHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_ALTER_SYNC_STATE_SET (1001)."""

    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoke_time: Int64 | None = None


class AlterSyncStateSetResponseHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_ALTER_SYNC_STATE_SET (1001)."""

    new_sync_state_set_epoch: Int32 | None = None


class ApplyBrokerIdRequestHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_APPLY_BROKER_ID (1013)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None


class ApplyBrokerIdResponseHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_APPLY_BROKER_ID (1013)."""

    cluster_name: str | None = None
    broker_name: str | None = None


class CleanControllerBrokerDataRequestHeader(Header, frozen=True, kw_only=True):
    """CLEAN_BROKER_DATA (1011)."""

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None


class ElectMasterRequestHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_ELECT_MASTER (1002)."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


class ElectMasterResponseHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_ELECT_MASTER (1002)."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class GetMetaDataResponseHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_GET_METADATA_INFO (1005)."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class GetNextBrokerIdRequestHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_GET_NEXT_BROKER_ID (1012)."""

    cluster_name: str | None = None
    broker_name: str | None = None


class GetNextBrokerIdResponseHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_GET_NEXT_BROKER_ID (1012)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class GetReplicaInfoRequestHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_GET_REPLICA_INFO (1004)."""

    broker_name: str | None = None


class GetReplicaInfoResponseHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_GET_REPLICA_INFO (1004)."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class NotifyBrokerRoleChangedRequestHeader(Header, frozen=True, kw_only=True):
    """NOTIFY_BROKER_ROLE_CHANGED (1008)."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class RegisterBrokerToControllerRequestHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_REGISTER_BROKER (1003)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None
    invoke_time: Int64 | None = None


class RegisterBrokerToControllerResponseHeader(Header, frozen=True, kw_only=True):
    """CONTROLLER_REGISTER_BROKER (1003)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
