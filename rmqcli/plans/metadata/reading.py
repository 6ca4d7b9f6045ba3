"""The metadata of a running cluster, as reported by its masters and name servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from rmqcli.client import Admin, ClientError
from rmqcli.codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from rmqcli.codec.operations.groups import GET_ALL_SUBSCRIPTIONGROUP_CONFIG
from rmqcli.codec.operations.offsets import GET_ALL_CONSUMER_OFFSET
from rmqcli.codec.operations.topics import GET_ALL_TOPIC_CONFIG
from rmqcli.plans.metadata.document import ORDER, Metadata, Places, Setting, without_own

Failures: TypeAlias = "dict[str, ClientError]"
_Read: TypeAlias = "Callable[[Admin, Mapping[str, str], Failures], Awaitable[Places]]"


class Scope(NamedTuple):
    """The scope of a reading: areas, namespaces of name servers, and masters (`brokers`, `cluster`).

    `everything` includes settings that are specific to the cluster.
    """

    areas: Collection[str]
    namespaces: Collection[str]
    brokers: Collection[str] = ()
    cluster: str | None = None
    everything: bool = False


class State(NamedTuple):
    """The metadata, the addresses of the masters, the names of clusters, and the failures by broker or name
    server.

    `unlike` are entries (namespace, name) that differ between name servers; the value is that of the first
    one that has the entry.
    """

    metadata: Metadata
    masters: Mapping[str, str]
    clusters: Collection[str]
    failures: Failures
    unlike: frozenset[tuple[str, str]]

    def problems(self) -> dict[str, ClientError | str]:
        """Return the reasons why the metadata is incomplete."""
        texts = {f"{space} {name}": "the name servers do not agree" for space, name in sorted(self.unlike)}
        return {**self.failures, **texts}


async def read_state(admin: Admin, scope: Scope) -> State:
    """Query the masters and name servers. A broker that fails in one area is omitted from all of them."""
    masters = await admin.brokers.masters(brokers=scope.brokers, cluster=scope.cluster)
    failures: Failures = {}
    areas: dict[str, Places] = {}
    for area, read in _AREAS.items():
        if area in scope.areas:
            areas[area] = await read(admin, masters, failures)
    missing = tuple(sorted(failures))
    areas = {
        area: {place: table for place, table in places.items() if place not in missing}
        for area, places in areas.items()
    }
    unlike: set[tuple[str, str]] = set()
    if "kv" in scope.areas:
        areas["kv"] = {space: await _entries(admin, space, failures, unlike) for space in scope.namespaces}
    found = Metadata(areas, missing)
    clusters = tuple((await admin.brokers.cluster_info()).cluster_addr_table)
    found = found if scope.everything else without_own(found, clusters)
    return State(found, masters, clusters, failures, frozenset(unlike))


async def _entries(
    admin: Admin, space: str, failures: Failures, unlike: set[tuple[str, str]]
) -> dict[str, Setting]:
    tables = await admin.name_servers.entries(space, failures=failures)
    merged: dict[str, Setting] = {}
    for name in {name for table in tables.values() for name in table}:
        values = [table.get(name) for table in tables.values()]
        merged[name] = next(value for value in values if value is not None)
        if len(set(values)) > 1:
            unlike.add((space, name))
    return merged


async def _topics(admin: Admin, masters: Mapping[str, str], failures: Failures) -> Places:
    tables = await admin.brokers.bodies(masters, GET_ALL_TOPIC_CONFIG, None, failures)
    return {broker: _plain(body.topic_config_table) for broker, body in tables.items()}


async def _groups(admin: Admin, masters: Mapping[str, str], failures: Failures) -> Places:
    tables = await admin.brokers.bodies(masters, GET_ALL_SUBSCRIPTIONGROUP_CONFIG, None, failures)
    return {broker: _plain(body.subscription_group_table) for broker, body in tables.items()}


def _plain(table: Mapping[str, TopicConfig | SubscriptionGroupConfig]) -> dict[str, Setting]:
    return {name: _members(config) for name, config in table.items()}


def _members(config: TopicConfig | SubscriptionGroupConfig) -> dict[str, Any]:
    """Return the members with a value, except the name, and `order`, which follows from the entries in kv."""
    _, *members = msgspec.to_builtins(config).items()
    return {name: value for name, value in members if value is not None and name != ORDER}


async def _configs(admin: Admin, masters: Mapping[str, str], failures: Failures) -> Places:
    return await admin.brokers.configs(masters, failures=failures)


async def _offsets(admin: Admin, masters: Mapping[str, str], failures: Failures) -> Places:
    tables = await admin.brokers.bodies(masters, GET_ALL_CONSUMER_OFFSET, None, failures)
    return {
        broker: {
            key: {str(queue): offset for queue, offset in queues.items()}
            for key, queues in body.offset_table.items()
            if key.count("@") == 1  # 5.x: topic@group@broadcast, which no client commits
        }
        for broker, body in tables.items()
    }


_AREAS: Final[Mapping[str, _Read]] = {
    "topics": _topics,
    "groups": _groups,
    "config": _configs,
    "offsets": _offsets,
}
