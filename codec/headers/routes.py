"""Headers of a name server: registration, routes, write permission, key-value table.

`body_crc32` is the 31-bit CRC of the body as sent; 0 means that it is not checked.
"""

from __future__ import annotations

from rmqcli.codec.headers.base import Header, Int32, Int64


class AddWritePermOfBrokerRequestHeader(Header, frozen=True, kw_only=True):
    broker_name: str


class AddWritePermOfBrokerResponseHeader(Header, frozen=True, kw_only=True):
    add_topic_count: Int32


class BrokerHeartbeatRequestHeader(Header, frozen=True, kw_only=True):
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
    cluster_name: str
    broker_name: str


class GetRouteInfoRequestHeader(Header, frozen=True, kw_only=True):
    topic: str
    accept_standard_json_only: bool = False


class NotifyMinBrokerIdChangeRequestHeader(Header, frozen=True, kw_only=True):
    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class QueryDataVersionRequestHeader(Header, frozen=True, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(Header, frozen=True, kw_only=True):
    changed: bool


class RegisterBrokerRequestHeader(Header, frozen=True, kw_only=True):
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
    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(Header, frozen=True, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class WipeWritePermOfBrokerRequestHeader(Header, frozen=True, kw_only=True):
    broker_name: str


class WipeWritePermOfBrokerResponseHeader(Header, frozen=True, kw_only=True):
    wipe_topic_count: Int32


class DeleteKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    namespace: str
    key: str


class GetKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    namespace: str
    key: str


class GetKVConfigResponseHeader(Header, frozen=True, kw_only=True):
    value: str | None = None


class GetKVListByNamespaceRequestHeader(Header, frozen=True, kw_only=True):
    namespace: str


class PutKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    namespace: str
    key: str
    value: str
