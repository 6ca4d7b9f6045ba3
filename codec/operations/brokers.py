"""Administration of a broker: configuration, statistics, files, high availability."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import controller, route, stats
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.headers import brokers, routes
from rmqcli.codec.headers.controller import NotifyBrokerRoleChangedRequestHeader
from rmqcli.codec.operations.access import GET, UPDATE, on_cluster
from rmqcli.codec.operations.operation import PROPERTIES, Operation

# fmt: off
UPDATE_BROKER_CONFIG: Final = Operation(R.UPDATE_BROKER_CONFIG, "A→B", request_body=PROPERTIES, access=(on_cluster(UPDATE),))
GET_BROKER_CONFIG: Final = Operation(R.GET_BROKER_CONFIG, "A→B", reply=brokers.GetBrokerConfigResponseHeader, reply_body=PROPERTIES, access=(on_cluster(GET),))
GET_BROKER_RUNTIME_INFO: Final = Operation(R.GET_BROKER_RUNTIME_INFO, "A→B", reply_body=route.KVTable, access=(on_cluster(GET),))
GET_TIMER_CHECK_POINT: Final = Operation(R.GET_TIMER_CHECK_POINT, "slave→B", reply_body=bytes, access=(on_cluster(GET),))
GET_TIMER_METRICS: Final = Operation(R.GET_TIMER_METRICS, "slave/A→B", reply_body=stats.TimerMetricsSerializeWrapper, access=(on_cluster(GET),))
VIEW_BROKER_STATS_DATA: Final = Operation(R.VIEW_BROKER_STATS_DATA, "A→B", request=brokers.ViewBrokerStatsDataRequestHeader, reply_body=stats.BrokerStatsData, access=(on_cluster(GET),))
DELETE_EXPIRED_COMMITLOG: Final = Operation(R.DELETE_EXPIRED_COMMITLOG, "A→B", access=(on_cluster(UPDATE),))
CHECK_ROCKSDB_CQ_WRITE_PROGRESS: Final = Operation(R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, "A→B", request=brokers.CheckRocksdbCqWriteProgressRequestHeader, reply_body=bytes, access=(on_cluster(GET),))
EXPORT_ROCKSDB_CONFIG_TO_JSON: Final = Operation(R.EXPORT_ROCKSDB_CONFIG_TO_JSON, "A→B", request=brokers.ExportRocksDBConfigToJsonRequestHeader, access=(on_cluster(UPDATE),))
ADD_BROKER: Final = Operation(R.ADD_BROKER, "A→container", request=brokers.AddBrokerRequestHeader, request_body=PROPERTIES)
REMOVE_BROKER: Final = Operation(R.REMOVE_BROKER, "A→container", request=brokers.RemoveBrokerRequestHeader)
NOTIFY_MIN_BROKER_ID_CHANGE: Final = Operation(R.NOTIFY_MIN_BROKER_ID_CHANGE, "N→B", request=routes.NotifyMinBrokerIdChangeRequestHeader, answered=False)
EXCHANGE_BROKER_HA_INFO: Final = Operation(R.EXCHANGE_BROKER_HA_INFO, "B→B", request=brokers.ExchangeHAInfoRequestHeader, reply=brokers.ExchangeHAInfoResponseHeader, access=(on_cluster(UPDATE),))
GET_BROKER_HA_STATUS: Final = Operation(R.GET_BROKER_HA_STATUS, "A→B", reply_body=controller.HARuntimeInfo, access=(on_cluster(GET),))
RESET_MASTER_FLUSH_OFFSET: Final = Operation(R.RESET_MASTER_FLUSH_OFFSET, "A→B", request=brokers.ResetMasterFlushOffsetHeader, access=(on_cluster(UPDATE),))
GET_BROKER_EPOCH_CACHE: Final = Operation(R.GET_BROKER_EPOCH_CACHE, "A→B", reply_body=controller.EpochEntryCache, access=(on_cluster(GET),))
NOTIFY_BROKER_ROLE_CHANGED: Final = Operation(R.NOTIFY_BROKER_ROLE_CHANGED, "Ctl→B", request=NotifyBrokerRoleChangedRequestHeader, request_body=controller.SyncStateSet)
UPDATE_COLD_DATA_FLOW_CTR_CONFIG: Final = Operation(R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, "A→B", request_body=PROPERTIES, access=(on_cluster(UPDATE),))
REMOVE_COLD_DATA_FLOW_CTR_CONFIG: Final = Operation(R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, "A→B", request_body=bytes, access=(on_cluster(UPDATE),))
GET_COLD_DATA_FLOW_CTR_INFO: Final = Operation(R.GET_COLD_DATA_FLOW_CTR_INFO, "A→B", reply_body=bytes, access=(on_cluster(GET),))
SET_COMMITLOG_READ_MODE: Final = Operation(R.SET_COMMITLOG_READ_MODE, "A→B", request=brokers.SetCommitLogReadModeRequestHeader, access=(on_cluster(UPDATE),))
ADVANCE_CLOCK: Final = Operation(R.ADVANCE_CLOCK, "A→B", request=brokers.AdvanceClockRequestHeader, access=(on_cluster(UPDATE),))
REGISTER_FILTER_SERVER: Final = Operation(R.REGISTER_FILTER_SERVER, "FS→B", request=brokers.RegisterFilterServerRequestHeader, reply=brokers.RegisterFilterServerResponseHeader)
REGISTER_MESSAGE_FILTER_CLASS: Final = Operation(R.REGISTER_MESSAGE_FILTER_CLASS, "C→FS", request=brokers.RegisterMessageFilterClassRequestHeader, request_body=bytes)
