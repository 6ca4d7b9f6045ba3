"""Administration of the broker itself: codes 25, 26, 28, 315, 329, 907, 908, 2001 to 2004 (Java class
`AdminBrokerProcessor`), and 31001."""

from __future__ import annotations

import logging
import os
from functools import partial

import trio
from msgspec.structs import replace

from rmqcli.broker.config import config_properties, expand_path, update_config
from rmqcli.broker.config.servers import FIXED_OF_BROKERS
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import ConfigError, Refusal
from rmqcli.broker.ha.slave import Slave
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.net.turns import LongWork, Steps
from rmqcli.broker.tables.configs import next_version
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.controller import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from rmqcli.codec.bodies.route import KVTable
from rmqcli.codec.bodies.stats import BrokerStatsData
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.brokers import (
    AdvanceClockRequestHeader,
    GetBrokerConfigResponseHeader,
    ResetMasterFlushOffsetHeader,
    SetCommitLogReadModeRequestHeader,
    ViewBrokerStatsDataRequestHeader,
)
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.versions import CURRENT_VERSION, version_name

KIB = 1024

_log = logging.getLogger("rmqcli.broker.config")


def update_broker_config(broker: BrokerContext, request: Request[None, dict[str, str]]) -> Reply[None, None]:
    """Change properties (code 25); those in configBlackList are refused, unknown ones ignored."""
    update = update_config(broker.config, request.body, told_properties(broker))
    if update.changed:
        broker.reconfigure(update.config)
        broker.config_version = next_version(broker.config_version, broker.now_ms)
        broker.store.barrier = partial(_save, broker, update.changed)
    if "brokerPermission" in update.changed:
        # A name server replaces the topics of a broker only if their version has changed.
        broker.topics.renew_version()
        broker.files.topics_changed()
        broker.announcer.announce(())
    return Reply()


async def _save(broker: BrokerContext, changed: dict[str, str]) -> None:
    """Save changed topics, and write the change to the configuration file of the broker, if it has one."""
    if "dataReadAheadEnable" in changed:
        await broker.store.apply_read_ahead()
    await broker.files.save_changed()
    if not broker.config.broker_config_path:
        return
    path = expand_path(broker.config.broker_config_path)
    try:
        await broker.files.update_properties(path, changed)
    except (OSError, ConfigError) as error:  # the change is effective until the next start, as in Java
        _log.error("cannot save the configuration to %s: %s", path, error)


def broker_config(
    broker: BrokerContext, _request: Request[None, None]
) -> Reply[GetBrokerConfigResponseHeader, dict[str, str]]:
    """Return every property that has a value (code 26)."""
    version = encode_body(broker.config_version).decode()
    return Reply(GetBrokerConfigResponseHeader(version=version), told_properties(broker))


def told_properties(broker: BrokerContext) -> dict[str, str]:
    """Return the properties in effect: defaults and port 0 are replaced by the actual values, and paths are
    absolute.
    """
    store, config = broker.store.config, broker.config
    slots, items = broker.store.index_size
    home = config.rocketmq_home or os.environ.get("ROCKETMQ_HOME")
    actual = {
        "brokerIP1": broker.host,
        "brokerIP2": config.broker_ip2 or broker.host,
        "storePathRootDir": str(store.root.absolute()),
        "storePathCommitLog": str(store.commit_log_folder.absolute()),
        "mappedFileSizeCommitLog": str(broker.store.commit_log_file_size),
        "mappedFileSizeConsumeQueue": str(broker.store.consume_queue_file_size),
        **({"maxHashSlotNum": str(slots), "maxIndexNum": str(items)} if slots else {}),
        # Java derives this from the two properties of the bloom filter, whatever the file says.
        "bitMapLengthConsumeQueueExt": str(broker.filters.bloom.bits),
        "haMaxGapNotInSync": str(config.ha_slave_fallbehind_max),  # its name in 5.x
        **({"rocketmqHome": str(expand_path(home).absolute())} if home else {}),
    }
    return {**config_properties(config), **FIXED_OF_BROKERS, **actual}


def delete_expired_files(broker: BrokerContext, _request: Request[None, None]) -> Reply[None, None]:
    """Remove expired commit-log files now (code 329)."""
    broker.store.barrier = broker.store.retention.delete_expired_files
    return Reply()


def stats_data(
    broker: BrokerContext, request: Request[ViewBrokerStatsDataRequestHeader, None]
) -> Answered[None, BrokerStatsData]:
    """Return the rates of one statistic item (code 315)."""
    return LongWork(_stats_data(broker, request.header))


def _stats_data(broker: BrokerContext, header: ViewBrokerStatsDataRequestHeader) -> Steps:
    data = yield from broker.statistics.item(header.stats_name, header.stats_key)
    if data is None:
        remark = f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return lambda: Reply(body=data)


def runtime_info(broker: BrokerContext, _request: Request[None, None]) -> Reply[None, KVTable]:
    """Return runtime statistics of the broker (code 28); all values are strings."""
    return Reply(body=KVTable(table=runtime_table(broker)))


def runtime_table(broker: BrokerContext) -> dict[str, str]:
    """Return the table of GET_BROKER_RUNTIME_INFO.

    Entries about threads have the values of a single thread: requests do not wait in queues (sizes and waits
    are 0), no page cache lock is needed, and dispatch never lags. dispatchMaxBuffer is 0, because no 4.9
    version sets it.
    """
    return {
        **_identity(broker),
        **_traffic(broker),
        **_store_state(broker),
        **_delays(broker),
        **_thread_pools(broker),
    }


def _identity(broker: BrokerContext) -> dict[str, str]:
    return {
        "bootTimestamp": str(broker.started),
        "runtime": _duration(broker.now_ms() - broker.started),
        "brokerVersion": str(CURRENT_VERSION),
        "brokerVersionDesc": version_name(CURRENT_VERSION),
        "startAcceptSendRequestTimeStamp": str(broker.config.start_accept_send_request_time_stamp),
        # From 5.x: delays and transactions are served here, and not by a master elsewhere.
        "brokerActive": str(not broker.is_slave).lower(),
    }


def _traffic(broker: BrokerContext) -> dict[str, str]:
    rates = broker.rates
    puts, gets = rates.mornings["put"], rates.mornings["get"]
    return {
        "msgPutTotalYesterdayMorning": str(puts[0]),
        "msgPutTotalTodayMorning": str(puts[1]),
        "msgPutTotalTodayNow": str(rates.put_messages),
        "msgGetTotalYesterdayMorning": str(gets[0]),
        "msgGetTotalTodayMorning": str(gets[1]),
        "msgGetTotalTodayNow": str(rates.transferred),
        "putTps": rates.rates("puts"),
        "getFoundTps": rates.rates("found"),
        "getMissTps": rates.rates("missed"),
        "getTotalTps": rates.rates("found", "missed", unknown="0.0"),
        "getTransferedTps": rates.rates("transferred"),
        # The spelling of 5.x, whose tools read only this one.
        "getTransferredTps": rates.rates("transferred"),
        "putMessageTimesTotal": str(max(1, rates.put_messages)),
        "putMessageFailedTimes": str(rates.put_failures),
        "putMessageSizeTotal": str(rates.put_bytes),
        "putMessageAverageSize": str(rates.put_bytes / max(1, rates.put_messages)),
        "putMessageDistributeTime": rates.put_times.distribution(),
        "putMessageEntireTimeMax": str(rates.put_times.longest_ms),
        "getMessageEntireTimeMax": str(int(rates.longest_get_seconds * 1000)),
        "putLatency99": f"{rates.put_times.percentile(0.99):.2f}",
        "putLatency999": f"{rates.put_times.percentile(0.999):.2f}",
    }


def _store_state(broker: BrokerContext) -> dict[str, str]:
    store = broker.store
    folder = store.config.commit_log_folder
    usage = store.retention.usage
    ratio = str(-(-usage.used * 100 // max(1, usage.used + usage.free)) / 100)
    unflushed = store.commit_log_max_offset - store.flushed_offset
    return {
        "dispatchMaxBuffer": "0",
        "dispatchBehindBytes": "0",
        "pageCacheLockTimeMills": "0",
        "commitLogMinOffset": str(store.commit_log_min_offset),
        "commitLogMaxOffset": str(store.commit_log_max_offset),
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{folder}": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogDirCapacity": f"Total : {bytes_text(usage.total)}, Free : {bytes_text(usage.free)}.",
        "remainHowManyDataToFlush": bytes_text(unflushed),
        "remainTransientStoreBufferNumbs": "2147483647",
        "earliestMessageTimeStamp": str(store.search.earliest_store_time()),
    }


def _delays(broker: BrokerContext) -> dict[str, str]:
    timers = broker.timers
    return {
        # From 5.x: seconds, messages not yet in the wheel, messages that wait.
        "timerReadBehind": str(timers.seconds_behind()),
        "timerOffsetBehind": str(timers.behind),
        "timerCongestNum": str(timers.waiting),
    } | {
        f"scheduleMessageOffset_{level}": (
            f"{broker.delay_offsets.get(level)},{broker.store.search.max_offset(SystemTopic.SCHEDULE, level - 1)}"
        )
        for level in broker.delay_offsets.levels()
    }


def _thread_pools(broker: BrokerContext) -> dict[str, str]:
    config = broker.config
    return {
        "sendThreadPoolQueueSize": "0",
        "sendThreadPoolQueueCapacity": str(config.send_thread_pool_queue_capacity),
        "sendThreadPoolQueueHeadWaitTimeMills": "0",
        "pullThreadPoolQueueSize": "0",
        "pullThreadPoolQueueCapacity": str(config.pull_thread_pool_queue_capacity),
        "pullThreadPoolQueueHeadWaitTimeMills": "0",
        # From 5.x; plain and lite pulls are the same here.
        "litePullThreadPoolQueueSize": "0",
        "litePullThreadPoolQueueCapacity": str(config.pull_thread_pool_queue_capacity),
        "litePullThreadPoolQueueHeadWaitTimeMills": "0",
        "ackThreadPoolQueueSize": "0",
        "ackThreadPoolQueueHeadWaitTimeMills": "0",
        "queryThreadPoolQueueSize": "0",
        "queryThreadPoolQueueCapacity": str(config.query_thread_pool_queue_capacity),
        "queryThreadPoolQueueHeadWaitTimeMills": "0",
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": str(config.end_transaction_pool_queue_capacity),
    }


def _duration(span_ms: int) -> str:
    minutes, seconds = divmod(max(0, span_ms) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def bytes_text(size: int) -> str:
    if size < KIB:
        return f"{size} B"
    exponent = (size.bit_length() - 1) // 10
    return f"{size / KIB**exponent:.1f} {'KMGTPE'[exponent - 1]}iB"


# Requests of 5.x tools about replication and the store: codes 907, 908, 2001 to 2004 (Java class
# `AdminBrokerProcessor`).

READ_AHEAD = {0: True, 1: False}
"""MADV_NORMAL and MADV_RANDOM of madvise(2)."""
NO_LIMITS = "this broker does not limit reads of cold data: no limit is kept"
NO_COLD_DATA = b'{"runtimeTable":{},"configTable":{},"coldDataFlowControlEnable":false}'
"""Tools show this table unchanged; the last member is not Java's, and explains why the others are empty."""


def ha_state(broker: BrokerContext, _request: Request[None, None]) -> Reply[None, HARuntimeInfo]:
    """Return the slaves of a master, or the connection of a slave (code 907)."""
    end, in_sync = broker.store.commit_log_max_offset, broker.ha.replicas.in_sync()
    slaves = [
        HAConnectionRuntimeInfo(
            addr=one.address,
            slave_ack_offset=max(one.acknowledged, 0),
            diff=end - max(one.acknowledged, 0),
            in_sync=one in in_sync,
            transferred_byte_in_second=one.rate,
            transfer_from_where=max(one.sent, 0),
        )
        for one in broker.ha.replicas.slaves
    ]
    return Reply(
        body=HARuntimeInfo(
            master=not broker.is_slave,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=sum(one.in_sync for one in slaves),
            ha_connection_info=slaves,
            ha_client_runtime_info=None if broker.slave is None else _client(broker, broker.slave),
        )
    )


def _client(broker: BrokerContext, slave: Slave) -> HAClientRuntimeInfo:
    progress, seconds = slave.progress, trio.current_time()
    return HAClientRuntimeInfo(
        master_addr=progress.ha_address or None,
        transferred_byte_in_second=round(progress.received / max(seconds - progress.begun, 1.0)),
        max_offset=broker.store.commit_log_max_offset,
        last_read_timestamp=_epoch_ms(broker, seconds - progress.last_read) if progress.last_read else 0,
        last_write_timestamp=_epoch_ms(broker, seconds - progress.last_write) if progress.last_write else 0,
        master_flush_offset=broker.store.master_flushed_offset or broker.store.commit_log_max_offset,
        activated=not progress.trouble,
    )


def _epoch_ms(broker: BrokerContext, seconds_ago: float) -> int:
    return broker.now_ms() - round(seconds_ago * 1000)


def reset_master_flush_offset(
    broker: BrokerContext, request: Request[ResetMasterFlushOffsetHeader, None]
) -> Reply[None, None]:
    """Set on a slave the offset up to which its master has flushed (code 908). A master ignores it, as in
    Java."""
    offset = request.header.master_flush_offset
    if offset < 0:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"masterFlushOffset={offset}: a number from 0 is expected")
    if broker.is_slave:
        broker.store.master_flushed_offset = offset
    return Reply()


def set_read_mode(
    broker: BrokerContext, request: Request[SetCommitLogReadModeRequestHeader, None]
) -> Reply[None, None]:
    """Turn the kernel's read-ahead for the commit log on or off until the next start (code 2004)."""
    mode = request.header.read_ahead_mode
    if mode not in READ_AHEAD:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"READ_AHEAD_MODE={mode}: 0 (normal) or 1 (random) is expected"
        )
    broker.reconfigure(replace(broker.config, data_read_ahead_enable=READ_AHEAD[mode]))
    broker.store.barrier = broker.store.apply_read_ahead
    return Reply(remark=f"dataReadAheadEnable={str(READ_AHEAD[mode]).lower()}")


def advance_clock(
    broker: BrokerContext, request: Request[AdvanceClockRequestHeader, None]
) -> Reply[None, None]:
    """Move the clock of a test broker forward (code 31001, not in RocketMQ)."""
    broker.advance_clock(request.header.milliseconds)
    return Reply()


def limit_cold_data(_broker: BrokerContext, _request: Request[None, dict[str, str]]) -> Reply[None, None]:
    """Accept limits of cold reads without keeping them (code 2001), as Java's default
    (`coldDataFlowControlEnable=false`) does not enforce them either."""
    return Reply(remark=NO_LIMITS)


def unlimit_cold_data(_broker: BrokerContext, _request: Request[None, bytes]) -> Reply[None, None]:
    """Do nothing, because there is no limit to remove (code 2002)."""
    return Reply(remark=NO_LIMITS)


def cold_data(_broker: BrokerContext, _request: Request[None, None]) -> Reply[None, bytes]:
    """Return empty tables, because cold reads are neither counted nor limited (code 2003)."""
    return Reply(body=NO_COLD_DATA)
