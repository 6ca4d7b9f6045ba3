"""Replication and the store as tools of 5.x ask for them: codes 907, 908, 2001 to 2004 (Java class
`AdminBrokerProcessor`).
"""

from __future__ import annotations

import trio
from msgspec.structs import replace

from broker.context import BrokerContext
from broker.errors import Refusal
from broker.ha.slave import Slave
from broker.net.handling import Reply, Request
from codec.bodies.controller import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from codec.codes import ResponseCode
from codec.headers.brokers import ResetMasterFlushOffsetHeader, SetCommitLogReadModeRequestHeader

READ_AHEAD = {0: True, 1: False}
"""MADV_NORMAL and MADV_RANDOM of madvise(2)."""
NO_LIMITS = "this broker does not limit reads of cold data: no limit is kept"
NO_COLD_DATA = b'{"runtimeTable":{},"configTable":{},"coldDataFlowControlEnable":false}'
"""Tools show the table as it is; the last word is ours, and says why the others are empty."""


def ha_state(broker: BrokerContext, _request: Request[None, None]) -> Reply[None, HARuntimeInfo]:
    """907: the slaves of a master, or the connection of a slave."""
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
    """908: tells a slave how far its master has flushed. A master ignores it, as in Java."""
    offset = request.header.master_flush_offset
    if offset < 0:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"masterFlushOffset={offset}: a number from 0 is expected")
    if broker.is_slave:
        broker.store.master_flushed_offset = offset
    return Reply()


def set_read_mode(
    broker: BrokerContext, request: Request[SetCommitLogReadModeRequestHeader, None]
) -> Reply[None, None]:
    """2004: has the system read ahead in the commit log or not, until the next start."""
    mode = request.header.read_ahead_mode
    if mode not in READ_AHEAD:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER, f"READ_AHEAD_MODE={mode}: 0 (normal) or 1 (random) is expected"
        )
    broker.reconfigure(replace(broker.config, data_read_ahead_enable=READ_AHEAD[mode]))
    broker.store.barrier = broker.store.apply_read_ahead
    return Reply(remark=f"dataReadAheadEnable={str(READ_AHEAD[mode]).lower()}")


def limit_cold_data(_broker: BrokerContext, _request: Request[None, dict[str, str]]) -> Reply[None, None]:
    """2001: nothing is limited, as with Java's default (`coldDataFlowControlEnable=false`), and nothing kept."""
    return Reply(remark=NO_LIMITS)


def unlimit_cold_data(_broker: BrokerContext, _request: Request[None, bytes]) -> Reply[None, None]:
    """2002: there is no limit to remove."""
    return Reply(remark=NO_LIMITS)


def cold_data(_broker: BrokerContext, _request: Request[None, None]) -> Reply[None, bytes]:
    """2003: nothing, as reads of cold data are neither counted nor limited."""
    return Reply(body=NO_COLD_DATA)
