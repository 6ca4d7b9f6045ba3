"""Every property of a 4.9.8 broker with its Java default: BrokerConfig, MessageStoreConfig, NettyServerConfig
and NettyClientConfig in one flat value. Sizes are in bytes and times in milliseconds unless a comment says
otherwise.

Properties of thread pools and buffers that have no effect here are kept, so that a broker.conf written for
Java can be loaded, shown and changed as in Java.
"""

from __future__ import annotations

import socket

import msgspec

from rmqcli.broker.config.servers import ServerConfig
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.store.consume_queue import ENTRY_SIZE, FILE_ENTRIES
from rmqcli.codec.store.delay_levels import DEFAULT_DELAY_LEVELS
from rmqcli.codec.store.index_file import FILE_ITEMS, FILE_SLOTS
from rmqcli.codec.store.timer_files import LOG_FILE_SIZE


class BrokerConfig(ServerConfig, frozen=True, kw_only=True):
    """The configuration of one broker."""

    # BrokerConfig: identity
    namesrv_addr: str | None = None
    broker_ip1: str | None = None
    broker_ip2: str | None = None
    broker_name: str = msgspec.field(default_factory=socket.gethostname)
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = 0
    broker_permission: int = 6
    region_id: str = "DefaultRegion"
    # BrokerConfig: topics and groups
    default_topic_queue_nums: int = 8
    auto_create_topic_enable: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    trace_topic_enable: bool = False
    trace_on: bool = True
    msg_trace_topic_name: str = SystemTopic.TRACE
    message_store_plug_in: str = ""
    # BrokerConfig: thread pools and their queues
    send_message_thread_pool_nums: int = 4
    put_message_future_thread_pool_nums: int = 4
    pull_message_thread_pool_nums: int = 20
    process_reply_message_thread_pool_nums: int = 20
    query_message_thread_pool_nums: int = 10
    admin_broker_thread_pool_nums: int = 16
    client_manage_thread_pool_nums: int = 32
    consumer_manage_thread_pool_nums: int = 32
    heartbeat_thread_pool_nums: int = 4
    end_transaction_thread_pool_nums: int = 12
    send_thread_pool_queue_capacity: int = 10000
    put_thread_pool_queue_capacity: int = 10000
    pull_thread_pool_queue_capacity: int = 100000
    reply_thread_pool_queue_capacity: int = 10000
    query_thread_pool_queue_capacity: int = 20000
    client_manager_thread_pool_queue_capacity: int = 1000000
    consumer_manager_thread_pool_queue_capacity: int = 1000000
    heartbeat_thread_pool_queue_capacity: int = 50000
    end_transaction_pool_queue_capacity: int = 100000
    wait_time_mills_in_send_queue: int = 200
    wait_time_mills_in_pull_queue: int = 5000
    wait_time_mills_in_heartbeat_queue: int = 31000
    wait_time_mills_in_transaction_queue: int = 3000
    # BrokerConfig: consuming
    flush_consumer_offset_interval: int = 5000
    flush_consumer_offset_history_interval: int = 60000
    reject_transaction_message: bool = False
    fetch_namesrv_addr_by_address_server: bool = False
    transfer_msg_by_heap: bool = True
    max_delay_time: int = 40
    short_polling_time_mills: int = 1000
    long_polling_enable: bool = True
    notify_consumer_ids_changed_enable: bool = True
    high_speed_mode: bool = False
    disable_consume_if_consumer_read_slowly: bool = False
    consumer_fallbehind_threshold: int = 1024 * 1024 * 1024 * 16
    slave_read_enable: bool = False
    channel_not_active_interval: int = 60000
    # BrokerConfig: commercial statistics
    commercial_enable: bool = True
    commercial_timer_count: int = 1
    commercial_trans_count: int = 1
    commercial_big_count: int = 1
    commercial_base_count: int = 1
    # BrokerConfig: filters
    filter_server_nums: int = 0
    enable_calc_filter_bit_map: bool = False
    expect_consumer_num_use_filter: int = 32
    max_error_rate_of_bloom_filter: int = 20
    filter_data_clean_time_span: int = 86400000
    filter_support_retry: bool = False
    enable_property_filter: bool = False
    # BrokerConfig: protection, registration, others
    broker_fast_failure_enable: bool = True
    start_accept_send_request_time_stamp: int = 0
    compressed_register: bool = False
    force_register: bool = True
    register_name_server_period: int = 30000
    register_broker_timeout_mills: int = 6000
    transaction_time_out: int = 6000
    transaction_check_max: int = 15
    transaction_check_interval: int = 60000
    acl_enable: bool = False
    # Not in Java: the file of accounts, relative to rocketmqHome; the default is conf/plain_acl.yml there.
    plain_acl_file: str | None = None
    # 5.x AuthConfig: the account with which the broker signs its own requests, and the first super user; they are
    # never shown.
    inner_client_authentication_credentials: str | None = None
    init_authentication_user: str | None = None
    authentication_enabled: bool = False
    authentication_whitelist: str | None = None
    authorization_enabled: bool = False
    authorization_whitelist: str | None = None
    store_reply_message_enable: bool = True
    enable_detail_stat: bool = True
    auto_delete_unused_stats: bool = False
    isolate_log_enable: bool = False
    is_enable_batch_push: bool = False
    config_black_list: str = "configBlackList;brokerConfigPath"
    broker_config_path: str | None = None
    # MessageStoreConfig: files
    store_path_root_dir: str = "~/store"
    store_path_commit_log: str | None = None
    read_only_commit_log_store_paths: str | None = None
    store_path_d_ledger_commit_log: str | None = None
    mapped_file_size_commit_log: int = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: int = FILE_ENTRIES * ENTRY_SIZE
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 48 * 1024 * 1024
    bit_map_length_consume_queue_ext: int = 64
    # MessageStoreConfig: flushing
    flush_disk_type: str = "ASYNC_FLUSH"
    flush_interval_commit_log: int = 500
    flush_commit_log_timed: bool = True
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10000
    sync_flush_timeout: int = 5000
    commit_interval_commit_log: int = 200
    commit_commit_log_least_pages: int = 4
    commit_commit_log_thorough_interval: int = 200
    flush_interval_consume_queue: int = 1000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60000
    flush_delay_offset_interval: int = 10000
    put_msg_index_hight_water: int = 600000
    use_reentrant_lock_when_put_message: bool = True
    transient_store_pool_enable: bool = False
    transient_store_pool_size: int = 5
    fast_fail_if_no_buffer_in_store_pool: bool = False
    warm_maped_file_enable: bool = False
    flush_least_pages_when_warm_maped_file: int = 4096
    os_page_cache_busy_time_out_mills: int = 1000
    debug_lock_enable: bool = False
    # MessageStoreConfig: expiry (deleteWhen: hours of the day, fileReservedTime: hours, ratio: percent)
    clean_resource_interval: int = 10000
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    destroy_maped_file_interval_forcibly: int = 120000
    redelete_hanged_file_interval: int = 120000
    delete_when: str = "04"
    disk_max_used_space_ratio: int = 75
    file_reserved_time: int = 72
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    disk_fall_recorded: bool = True
    # 5.x: the kernel reads ahead in the files of the commit log.
    data_read_ahead_enable: bool = True
    # MessageStoreConfig: messages
    max_message_size: int = 4 * 1024 * 1024
    check_crc_on_recover: bool = True
    check_store_on_start: bool = False
    move_damaged_log_aside: bool = False
    ignore_unsupported: bool = False
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    message_index_enable: bool = True
    message_index_safe: bool = False
    max_hash_slot_num: int = FILE_SLOTS
    max_index_num: int = FILE_ITEMS
    max_msgs_num_batch: int = 64
    default_query_max_num: int = 32
    message_delay_level: str = DEFAULT_DELAY_LEVELS
    enable_schedule_message_stats: bool = True
    enable_schedule_async_deliver: bool = False
    schedule_async_deliver_max_pending_limit: int = 2000
    schedule_async_deliver_max_resend_num2_blocked: int = 3
    # 5.x: timer messages; seconds, messages in one second, bytes of a file of the timer log. Java's default of
    # recallMessageEnable is false.
    timer_wheel_enable: bool = True
    timer_max_delay_sec: int = 3 * 24 * 3600
    timer_congest_num_each_slot: int = 2**31 - 1
    mapped_file_size_timer_log: int = LOG_FILE_SIZE
    recall_message_enable: bool = True
    enable_lmq: bool = False
    enable_multi_dispatch: bool = False
    max_lmq_consume_queue_num: int = 20000
    # MessageStoreConfig: replication
    ha_listen_port: int = 10912
    ha_send_heartbeat_interval: int = 5000
    ha_housekeeping_interval: int = 20000
    ha_transfer_batch_size: int = 32 * 1024
    ha_master_address: str | None = None
    ha_slave_fallbehind_max: int = 256 * 1024 * 1024
    broker_role: str = "ASYNC_MASTER"
    slave_timeout: int = 3000
    offset_check_in_slave: bool = False
    # 5.x: the copies that a send waits for, including the master's; all slaves in sync; the least number of
    # copies.
    in_sync_replicas: int = 1
    all_ack_in_sync_state_set: bool = False
    min_in_sync_replicas: int = 1
    duplication_enable: bool = False
    enable_d_leger_commit_log: bool = False
    d_leger_group: str | None = None
    d_leger_peers: str | None = None
    d_leger_self_id: str | None = None
    preferred_leader: str | None = None
    # Not in Java, for the replication port: who may connect (expressions as in plain_acl.yml, separated by
    # ';'), whether only over TLS, and whether a slave uses TLS.
    ha_white_remote_addresses: str | None = None
    ha_tls_required: bool = False
    ha_tls_enable: bool = False
    # NettyServerConfig
    listen_port: int = 10911
    # NettyClientConfig
    client_worker_threads: int = 4
    client_callback_executor_threads: int = 4
    client_oneway_semaphore_value: int = 65535
    client_async_semaphore_value: int = 65535
    client_channel_max_idle_time_seconds: int = 120
    client_socket_snd_buf_size: int = 0
    client_socket_rcv_buf_size: int = 0
    client_pooled_byte_buf_allocator_enable: bool = False
    client_close_socket_if_timeout: bool = True
    connect_timeout_millis: int = 3000
    use_tls: bool = False
    # 5.x: code 222 accepts a queue and an offset; tools check whether a broker has this property.
    use_server_side_reset_offset: bool = True
    # 5.x, where it is a property of the proxy and true: gRPC clients send to a topic only messages of its type.
    enable_topic_message_type_check: bool = False
    # Not in Java: the port that is registered for clients, if a port forward leads from it to listenPort; 0:
    # listenPort.
    advertised_port: int = 0
    # Not in Java: the second port, listenPort - 2, to which Java clients with a VIP channel send.
    vip_channel_enabled: bool = True
    # Not in Java: microseconds for which the broker polls for the next request before it sleeps; 0 disables
    # polling.
    busy_poll_micros: int = 400

    def __repr__(self) -> str:
        """Return a string without the values, one of which is a secret."""
        return f"BrokerConfig({self.broker_name!r}, {self.broker_role})"
