"""Maintenance of 5.x brokers.

Cold data (codes 2001 to 2003), read-ahead (2004), RocksDB (354, 355, 200056), and containers of brokers (902,
903).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from rmqcli.client.admin.area import Area
from rmqcli.client.admin.values import TopicChange
from rmqcli.client.errors import ClientError, NotSupported, UnexpectedReply, valid
from rmqcli.codec.bodies.config import encode_properties_text
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.brokers import (
    AddBrokerRequestHeader,
    CheckRocksdbCqWriteProgressRequestHeader,
    ExportRocksDBConfigToJsonRequestHeader,
    RemoveBrokerRequestHeader,
    SetCommitLogReadModeRequestHeader,
)
from rmqcli.codec.operations.brokers import (
    ADD_BROKER,
    CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
    EXPORT_ROCKSDB_CONFIG_TO_JSON,
    GET_COLD_DATA_FLOW_CTR_INFO,
    REMOVE_BROKER,
    REMOVE_COLD_DATA_FLOW_CTR_CONFIG,
    SET_COMMITLOG_READ_MODE,
    UPDATE_COLD_DATA_FLOW_CTR_CONFIG,
)
from rmqcli.codec.operations.pop import POP_ROLLBACK

Failures = dict[str, ClientError]


class UpkeepAdmin(Area):
    async def cold_data(
        self, seats: Mapping[str, str], *, failures: Failures | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return the table of cold reads by broker (code 2003), with Java's names; {} if it has none."""

        async def ask(address: str) -> dict[str, Any]:
            body = (await self.instance.ask(address, GET_COLD_DATA_FLOW_CTR_INFO, None, None)).body
            return self._document(address, GET_COLD_DATA_FLOW_CTR_INFO.name, body)

        return await self.ask_all(seats, ask, failures)

    async def set_cold_limit(self, seats: Mapping[str, str], group: str, size: int) -> TopicChange:
        """Limit the bytes of cold data that a group may read per second (code 2001).

        The limits are read back. Raises NotSupported for a broker that accepted a limit but does not store
        it.
        """
        values = {group: str(size)}
        valid(encode_properties_text, values)
        request = UPDATE_COLD_DATA_FLOW_CTR_CONFIG
        changed = await self.change(seats, request, None, values)
        failures = dict(changed.failures)
        tables = await self.cold_data({name: seats[name] for name in changed.brokers}, failures=failures)
        dropped = [name for name, table in tables.items() if group not in (table.get("configTable") or {})]
        for name in dropped:
            text = "this broker keeps no limits of cold reads: nothing is limited"
            failures[name] = NotSupported(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text, seats[name], request.name, concluded=True
            )
        kept = tuple(name for name in changed.brokers if name not in failures)
        if not kept:
            raise next(iter(failures.values()))
        return TopicChange(kept, failures)

    async def remove_cold_limit(self, seats: Mapping[str, str], group: str) -> TopicChange:
        """Remove the limit of a group (code 2002)."""
        return await self.change(seats, REMOVE_COLD_DATA_FLOW_CTR_CONFIG, None, group.encode())

    async def set_read_ahead(self, seats: Mapping[str, str], mode: int) -> TopicChange:
        """Set how the system reads ahead in commit logs (code 2004): 0 normal, 1 random, as for madvise(2)."""
        header = SetCommitLogReadModeRequestHeader(read_ahead_mode=mode)
        return await self.change(seats, SET_COMMITLOG_READ_MODE, header, None)

    async def export_tables(self, seats: Mapping[str, str], tables: Collection[str]) -> TopicChange:
        """Make brokers write tables that they keep in RocksDB to their disks as JSON (code 355).

        `tables` are any of topics, subscriptionGroups and consumerOffsets.
        """
        header = ExportRocksDBConfigToJsonRequestHeader(config_type="".join(f"{one};" for one in tables))
        return await self.change(seats, EXPORT_ROCKSDB_CONFIG_TO_JSON, header, None)

    async def compare_queues(
        self, seats: Mapping[str, str], topic: str, since: int, *, failures: Failures | None = None
    ) -> dict[str, dict[str, Any]]:
        """Make brokers compare their consume queues in files with those in RocksDB (code 354).

        `since` is a store time (epoch ms); an empty `topic` means all topics. The brokers write the
        differences to their logs.
        """
        header = CheckRocksdbCqWriteProgressRequestHeader(topic=topic, check_store_time=since)

        async def ask(address: str) -> dict[str, Any]:
            body = (await self.instance.ask(address, CHECK_ROCKSDB_CQ_WRITE_PROGRESS, header, None)).body
            return self._document(address, CHECK_ROCKSDB_CQ_WRITE_PROGRESS.name, body)

        return await self.ask_all(seats, ask, failures)

    async def export_pop_records(self, seats: Mapping[str, str]) -> TopicChange:
        """Make brokers move POP records from RocksDB to files (code 200056)."""
        return await self.change(seats, POP_ROLLBACK, None, None)

    async def add_broker(self, container: str, path: str) -> None:
        """Start a broker in a container with a configuration file on the container's machine (code 902)."""
        await self.instance.ask(container, ADD_BROKER, AddBrokerRequestHeader(config_path=path), {})

    async def remove_broker(self, container: str, cluster: str, name: str, broker_id: int) -> None:
        """Stop a broker in a container (code 903)."""
        header = RemoveBrokerRequestHeader(broker_name=name, broker_cluster_name=cluster, broker_id=broker_id)
        await self.instance.ask(container, REMOVE_BROKER, header, None)

    def _document(self, address: str, request: str, body: bytes | memoryview) -> dict[str, Any]:
        if not body:
            return {}
        try:
            found = json.loads(bytes(body))
        except ValueError as error:
            raise UnexpectedReply(address, request, f"no JSON: {error}") from None
        if not isinstance(found, dict):
            raise UnexpectedReply(address, request, "no object")
        return found
