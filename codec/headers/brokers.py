"""Headers of broker administration: configuration, statistics, class filters, broker container."""

from __future__ import annotations

import msgspec

from codec.headers.base import Header, Int32, Int64


class AddBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """ADD_BROKER (902)."""

    config_path: str | None = None


class CheckRocksdbCqWriteProgressRequestHeader(Header, frozen=True, kw_only=True):
    """CHECK_ROCKSDB_CQ_WRITE_PROGRESS (354)."""

    topic: str
    check_store_time: Int64 | None = None


class ExchangeHAInfoRequestHeader(Header, frozen=True, kw_only=True):
    """EXCHANGE_BROKER_HA_INFO (906)."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeHAInfoResponseHeader(Header, frozen=True, kw_only=True):
    """EXCHANGE_BROKER_HA_INFO (906)."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExportRocksDBConfigToJsonRequestHeader(Header, frozen=True, kw_only=True):
    """EXPORT_ROCKSDB_CONFIG_TO_JSON (355)."""

    config_type: str


class GetBrokerConfigResponseHeader(Header, frozen=True, kw_only=True):
    """GET_BROKER_CONFIG (26)."""

    version: str


class RegisterFilterServerRequestHeader(Header, frozen=True, kw_only=True):
    """REGISTER_FILTER_SERVER (301)."""

    filter_server_addr: str


class RegisterFilterServerResponseHeader(Header, frozen=True, kw_only=True):
    """REGISTER_FILTER_SERVER (301)."""

    broker_name: str
    broker_id: Int64


class RegisterMessageFilterClassRequestHeader(Header, frozen=True, kw_only=True):
    """REGISTER_MESSAGE_FILTER_CLASS (302)."""

    consumer_group: str
    topic: str
    class_name: str
    class_crc: Int32 = msgspec.field(name="classCRC")


class RemoveBrokerRequestHeader(Header, frozen=True, kw_only=True):
    """REMOVE_BROKER (903)."""

    broker_name: str
    broker_cluster_name: str
    broker_id: Int64


class ResetMasterFlushOffsetHeader(Header, frozen=True, kw_only=True):
    """RESET_MASTER_FLUSH_OFFSET (908)."""

    master_flush_offset: Int64


class ViewBrokerStatsDataRequestHeader(Header, frozen=True, kw_only=True):
    """VIEW_BROKER_STATS_DATA (315)."""

    stats_name: str
    stats_key: str
