"""Requests of 5.x to which this broker has a true answer without the feature behind them: codes 907, 2003
(Java class `AdminBrokerProcessor`).
"""

from __future__ import annotations

import trio

from broker.context import BrokerContext
from broker.ha.slave import Slave
from broker.net.handling import Reply, Request
from codec.bodies.controller import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo

NO_COLD_DATA = b'{"runtimeTable":{},"configTable":{}}'


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
        master_flush_offset=broker.store.commit_log_max_offset,
        activated=not progress.trouble,
    )


def _epoch_ms(broker: BrokerContext, seconds_ago: float) -> int:
    return broker.now_ms() - round(seconds_ago * 1000)


def cold_data(_broker: BrokerContext, _request: Request[None, None]) -> Reply[None, bytes]:
    """2003: nothing, as reads of cold data are neither counted nor limited."""
    return Reply(body=NO_COLD_DATA)
