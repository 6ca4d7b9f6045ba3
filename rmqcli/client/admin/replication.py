"""Replication of 5.x: state of masters and slaves (code 907), epochs (1007), flush offsets (908)."""

from __future__ import annotations

from collections.abc import Mapping

from codec.bodies.controller import EpochEntryCache, HARuntimeInfo
from codec.headers.brokers import ResetMasterFlushOffsetHeader
from codec.operations.brokers import (
    GET_BROKER_EPOCH_CACHE,
    GET_BROKER_HA_STATUS,
    RESET_MASTER_FLUSH_OFFSET,
)
from rmqcli.client.admin.area import Area
from rmqcli.client.admin.values import TopicChange
from rmqcli.client.errors import ClientError

Failures = dict[str, ClientError]


class ReplicationAdmin(Area):
    async def states(
        self, seats: Mapping[str, str], *, failures: Failures | None = None
    ) -> dict[str, HARuntimeInfo]:
        """Return the slaves of each master, and the master of each slave (code 907)."""
        return await self.bodies(seats, GET_BROKER_HA_STATUS, None, failures)

    async def epochs(
        self, seats: Mapping[str, str], *, failures: Failures | None = None
    ) -> dict[str, EpochEntryCache]:
        """Return the parts of the log by the masters that wrote them (code 1007); only with a controller."""
        return await self.bodies(seats, GET_BROKER_EPOCH_CACHE, None, failures)

    async def set_master_flush_offset(self, seats: Mapping[str, str], offset: int) -> TopicChange:
        """Tell slaves how far their master has flushed (code 908); a master ignores it."""
        header = ResetMasterFlushOffsetHeader(master_flush_offset=offset)
        return await self.change(seats, RESET_MASTER_FLUSH_OFFSET, header, None)
