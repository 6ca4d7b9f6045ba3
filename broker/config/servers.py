"""The properties of every server, and those of a 4.9.8 name server, with their Java defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from rmqcli.codec.ids import DEFAULT_NAMESRV_PORT
from rmqcli.codec.names import MAX_TOPIC_LENGTH

_CAPITALS = {
    "broker_ip1": "brokerIP1",
    "broker_ip2": "brokerIP2",
    "use_tls": "useTLS",
    "check_crc_on_recover": "checkCRCOnRecover",
}


def java_name(field: str) -> str:
    """Return the Java property of a field: `listen_port` is `listenPort`, but `broker_ip1` is `brokerIP1`."""
    first, *rest = field.split("_")
    return _CAPITALS.get(field) or first + "".join(word[:1].upper() + word[1:] for word in rest)


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, rename=java_name):
    """The properties of every server. Field names are the Java names in snake_case (`brokerIP1` is
    `broker_ip1`)."""

    rocketmq_home: str | None = None
    # NettyServerConfig (serverChannelMaxIdleTimeSeconds: seconds)
    server_worker_threads: int = 8
    server_callback_executor_threads: int = 0
    server_selector_threads: int = 3
    server_oneway_semaphore_value: int = 256
    server_async_semaphore_value: int = 64
    server_channel_max_idle_time_seconds: int = 120
    server_socket_snd_buf_size: int = 0
    server_socket_rcv_buf_size: int = 0
    server_socket_backlog: int = 1024
    write_buffer_high_water_mark: int = 0
    write_buffer_low_water_mark: int = 0
    server_pooled_byte_buf_allocator_enable: bool = True
    use_epoll_native_selector: bool = False
    # As in 5.x; 4.9 binds all addresses.
    bind_address: str = "0.0.0.0"
    # Not in Java: the maximum number of connections, and of bytes queued for one peer.
    max_connections: int = 16384
    max_outgoing_bytes: int = 64 * 1024 * 1024


class NamesrvConfig(ServerConfig, frozen=True, kw_only=True):
    """NamesrvConfig and NettyServerConfig. An empty `kvConfigPath` or `configStorePath` saves nothing."""

    kv_config_path: str | None = "~/namesrv/kvConfig.json"
    config_store_path: str | None = "~/namesrv/namesrv.properties"
    product_env_name: str = "center"
    cluster_test: bool = False
    order_message_enable: bool = False
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    listen_port: int = DEFAULT_NAMESRV_PORT
    # Not in Java: milliseconds.
    scan_not_active_broker_interval: int = 10000
    broker_expired_time: int = 120000


class ProxyConfig(ServerConfig, frozen=True, kw_only=True):
    """The properties of `rmq proxy`, with the names that brokers have for them."""

    listen_port: int = 8081
    max_message_size: int = 4 * 1024 * 1024
    enable_topic_message_type_check: bool = False
    acl_enable: bool = False
    plain_acl_file: str | None = None
    authentication_enabled: bool = False
    authentication_whitelist: str | None = None
    authorization_enabled: bool = False
    authorization_whitelist: str | None = None


# Properties of 5.x that have one value here: a feature that these servers do not have, or always have. They
# are reported like the others, because tools of 5.x read them, and changes are refused.
#
# Properties of 5.x that tune features which these servers do not have (thread pools, POP buffers, compaction,
# RocksDB) are neither known nor reported.

FIXED_OF_BROKERS: Final[Mapping[str, str]] = {
    # Features that this broker does not have.
    "coldDataFlowControlEnable": "false",
    "coldDataScanEnable": "false",
    "defaultMessageRequestMode": "PULL",
    "enableCompaction": "false",
    "enableControllerMode": "false",
    "enableRemoteEscape": "false",
    "enableRetryTopicV2": "false",
    "enableSlaveActingMaster": "false",
    "enabledAppendPropCRC": "false",
    "isInBrokerContainer": "false",
    "metricsExporterType": "DISABLE",
    "rocksdbCQDoubleWriteEnable": "false",
    "storeType": "default",
    "useStaticSubscription": "false",
    # Behaviour that cannot be changed.
    "enableCreateSysGroup": "true",
    "litePullMessageEnable": "true",
    "maxTopicLength": str(MAX_TOPIC_LENGTH),
    "rejectPullConsumerEnable": "false",
    "serverLoadBalancerEnable": "true",
    "validateSystemTopicWhenUpdateTopic": "true",
}
FIXED_OF_NAME_SERVERS: Final[Mapping[str, str]] = {
    "deleteTopicWithBrokerRegistration": "false",
    "enableAllTopicList": "true",
    "enableControllerInNamesrv": "false",
    "enableTopicList": "true",
    "needWaitForService": "false",
    "notifyMinBrokerIdChanged": "false",
    "returnOrderTopicConfigToBroker": "true",
    "supportActingMaster": "false",
}
FIXED: Final[Mapping[str, str]] = {**FIXED_OF_BROKERS, **FIXED_OF_NAME_SERVERS}
