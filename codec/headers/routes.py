"""Headers between brokers, clients and the name server: registration, routes, write permission.

`body_crc32` is the 31-bit CRC of the body as sent; 0 is not checked.
"""

from __future__ import annotations

from codec.headers.base import Header, Int32, Int64


class AddWritePermOfBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """ADD_WRITE_PERM_OF_BROKER (327)."""

    broker_name: str


class AddWritePermOfBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """ADD_WRITE_PERM_OF_BROKER (327)."""

    add_topic_count: Int32


class BrokerHeartbeatRequestHeader(Header, frozen=True, kw_only=True):
    """BROKER_HEARTBEAT (904)."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class GetBrokerMemberGroupRequestHeader(Header, frozen=True, kw_only=True):
    """GET_BROKER_MEMBER_GROUP (901)."""

    cluster_name: str
    broker_name: str


class GetRouteInfoRequestHeader(Header, frozen=True, kw_only=True):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    topic: str
    accept_standard_json_only: bool = False


class NotifyMinBrokerIdChangeRequestHeader(Header, frozen=True, kw_only=True):
    """NOTIFY_MIN_BROKER_ID_CHANGE (905)."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class QueryDataVersionRequestHeader(Header, frozen=True, kw_only=True):
    """QUERY_DATA_VERSION (322)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(Header, frozen=True, kw_only=True):
    """QUERY_DATA_VERSION (322)."""

    changed: bool


class RegisterBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """REGISTER_BROKER (103)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64
    ha_server_addr: str = ""
    compressed: bool = False
    enable_acting_master: bool | None = None
    heartbeat_timeout_millis: Int64 | None = None
    body_crc32: Int32 = 0


class RegisterBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """REGISTER_BROKER (103)."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """UNREGISTER_BROKER (104)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class WipeWritePermOfBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """WIPE_WRITE_PERM_OF_BROKER (205)."""

    broker_name: str


class WipeWritePermOfBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """WIPE_WRITE_PERM_OF_BROKER (205)."""

    wipe_topic_count: Int32
