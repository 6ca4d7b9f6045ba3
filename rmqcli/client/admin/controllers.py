"""Controllers of 5.x, which elect masters.

Metadata (1005), replicas (1006), configuration (1009, 1010), elections (1002), removal of brokers (1011).
Calls take "host:port" of any controller; calls that only the leader answers look it up first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rmqcli.client.admin.area import Area
from rmqcli.client.admin.values import TopicChange
from rmqcli.client.errors import ClientError, valid
from rmqcli.codec.bodies.config import encode_properties_text
from rmqcli.codec.bodies.controller import EpochEntryCache, HARuntimeInfo, ReplicasInfo
from rmqcli.codec.headers.brokers import ResetMasterFlushOffsetHeader
from rmqcli.codec.headers.controller import (
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetMetaDataResponseHeader,
)
from rmqcli.codec.operations.brokers import (
    GET_BROKER_EPOCH_CACHE,
    GET_BROKER_HA_STATUS,
    RESET_MASTER_FLUSH_OFFSET,
)
from rmqcli.codec.operations.controller import (
    CLEAN_BROKER_DATA,
    CONTROLLER_ELECT_MASTER,
    CONTROLLER_GET_METADATA_INFO,
    CONTROLLER_GET_SYNC_STATE_DATA,
    GET_CONTROLLER_CONFIG,
    UPDATE_CONTROLLER_CONFIG,
)

Failures = dict[str, ClientError]


class ControllerAdmin(Area):
    async def metadata(self, address: str) -> GetMetaDataResponseHeader:
        """Return the group, the leader and the members known to a controller (code 1005)."""
        return (await self.instance.ask(address, CONTROLLER_GET_METADATA_INFO, None, None)).header

    async def leader(self, address: str) -> str:
        """Return the address of the leader named by a controller, or of the controller itself."""
        found = await self.metadata(address)
        return address if found.is_leader else found.controller_leader_address or address

    async def replicas(self, address: str, brokers: Collection[str]) -> dict[str, ReplicasInfo]:
        """Return the replicas of each broker, in sync or not (code 1006 to the leader)."""
        leader = await self.leader(address)
        answer = await self.instance.ask(leader, CONTROLLER_GET_SYNC_STATE_DATA, None, list(brokers))
        return dict(answer.body.replicas_info_table)

    async def configs(
        self, addresses: Collection[str], *, failures: Failures | None = None
    ) -> dict[str, dict[str, str]]:
        """Return the properties of controllers by address (code 1010)."""
        return await self.bodies({one: one for one in addresses}, GET_CONTROLLER_CONFIG, None, failures)

    async def set_config(self, addresses: Collection[str], values: Mapping[str, str]) -> TopicChange:
        """Change properties of controllers (code 1009).

        Raises InvalidRequest for text of more than one line.
        """
        valid(encode_properties_text, values)
        targets = {one: one for one in addresses}
        return await self.change(targets, UPDATE_CONTROLLER_CONFIG, None, dict(values))

    async def elect(
        self, address: str, cluster: str, broker: str, broker_id: int
    ) -> ElectMasterResponseHeader:
        """Make a replica the master of its broker name (code 1002 to the leader)."""
        header = ElectMasterRequestHeader(
            cluster_name=cluster, broker_name=broker, broker_id=broker_id, designate_elect=True
        )
        leader = await self.leader(address)
        return (await self.instance.ask(leader, CONTROLLER_ELECT_MASTER, header, None)).header

    async def forget(
        self, address: str, broker: str, ids: Collection[int] = (), *, cluster: str = "", living: bool = False
    ) -> None:
        """Remove replicas of a broker name from the leader (code 1011), all of them without `ids`.

        A controller refuses replicas that are alive, unless `living` is set.
        """
        header = CleanControllerBrokerDataRequestHeader(
            broker_name=broker,
            cluster_name=cluster,
            broker_controller_ids_to_clean=";".join(map(str, ids)) or None,
            is_clean_living_broker=living,
        )
        await self.instance.ask(await self.leader(address), CLEAN_BROKER_DATA, header, None)


class ReplicationAdmin(Area):
    async def states(
        self, seats: Mapping[str, str], *, failures: Failures | None = None
    ) -> dict[str, HARuntimeInfo]:
        """Return the slaves of each master, and the master of each slave (code 907)."""
        return await self.bodies(seats, GET_BROKER_HA_STATUS, None, failures)

    async def epochs(
        self, seats: Mapping[str, str], *, failures: Failures | None = None
    ) -> dict[str, EpochEntryCache]:
        """Return the parts of the log with the masters that wrote them (code 1007); requires a controller."""
        return await self.bodies(seats, GET_BROKER_EPOCH_CACHE, None, failures)

    async def set_master_flush_offset(self, seats: Mapping[str, str], offset: int) -> TopicChange:
        """Notify slaves of the offset up to which their master has flushed (code 908). Masters ignore it."""
        header = ResetMasterFlushOffsetHeader(master_flush_offset=offset)
        return await self.change(seats, RESET_MASTER_FLUSH_OFFSET, header, None)
