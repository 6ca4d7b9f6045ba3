"""Headers of broker administration: configuration, statistics, class filters, broker container."""

from __future__ import annotations

import msgspec

from rmqcli.codec.headers.base import Header, Int32, Int64


class AddBrokerRequestHeader(Header, frozen=True, kw_only=True):
    config_path: str | None = None


class AdvanceClockRequestHeader(Header, frozen=True, kw_only=True):
    milliseconds: Int64


class CheckRocksdbCqWriteProgressRequestHeader(Header, frozen=True, kw_only=True):
    topic: str
    check_store_time: Int64 | None = None


class ExchangeHAInfoRequestHeader(Header, frozen=True, kw_only=True):
    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeHAInfoResponseHeader(Header, frozen=True, kw_only=True):
    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExportRocksDBConfigToJsonRequestHeader(Header, frozen=True, kw_only=True):
    config_type: str


class GetBrokerConfigResponseHeader(Header, frozen=True, kw_only=True):
    version: str


class RegisterFilterServerRequestHeader(Header, frozen=True, kw_only=True):
    filter_server_addr: str


class RegisterFilterServerResponseHeader(Header, frozen=True, kw_only=True):
    broker_name: str
    broker_id: Int64


class RegisterMessageFilterClassRequestHeader(Header, frozen=True, kw_only=True):
    consumer_group: str
    topic: str
    class_name: str
    class_crc: Int32 = msgspec.field(name="classCRC")


class RemoveBrokerRequestHeader(Header, frozen=True, kw_only=True):
    broker_name: str
    broker_cluster_name: str
    broker_id: Int64


class ResetMasterFlushOffsetHeader(Header, frozen=True, kw_only=True):
    master_flush_offset: Int64


class SetCommitLogReadModeRequestHeader(Header, frozen=True, kw_only=True):
    """Read-ahead: 0 is MADV_NORMAL, 1 is MADV_RANDOM (`FIleReadaheadMode`, an ext field without a header
    class).
    """

    read_ahead_mode: Int32 = msgspec.field(name="READ_AHEAD_MODE")


class ViewBrokerStatsDataRequestHeader(Header, frozen=True, kw_only=True):
    stats_name: str
    stats_key: str
