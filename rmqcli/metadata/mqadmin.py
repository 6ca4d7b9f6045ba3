"""The files of mqadmin's `exportMetadata` (topic.json, subscriptionGroup.json, metadata.json) and
`exportConfigs` (configs.json), and the tables of a store's `config` folder, which look alike.

They name no brokers, so what they say is of every broker. An export of a cluster (`-c`; it has an
`exportTime`) adds up the queues that a topic, and the retry queues that a group has on its masters (Java
`ExportMetadataCommand` of 4.9 and 5.x).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from rmqcli.metadata.values import EVERY_BROKER, ORDER, Metadata, Places

_TABLES: Final[Mapping[str, tuple[str, type[TopicConfig] | type[SubscriptionGroupConfig]]]] = {
    "topicConfigTable": ("topics", TopicConfig),
    "subscriptionGroupTable": ("groups", SubscriptionGroupConfig),
}


def export_of(content: Mapping[str, Any]) -> Metadata | None:
    """Return what an export says, or None if it is none. Members that are not known are left out."""
    areas: dict[str, Places] = {
        area: {EVERY_BROKER: {name: _known(members, struct) for name, members in content[member].items()}}
        for member, (area, struct) in _TABLES.items()
        if isinstance(content.get(member), dict)
    }
    configs = content.get("brokerConfigs")
    if isinstance(configs, dict) and all(isinstance(table, dict) for table in configs.values()):
        areas["config"] = {
            broker: {name: str(value) for name, value in table.items()} for broker, table in configs.items()
        }
    return Metadata(areas, summed="exportTime" in content) if areas else None


def _known(members: Any, struct: type[TopicConfig] | type[SubscriptionGroupConfig]) -> dict[str, Any]:
    fields = msgspec.structs.fields(struct)[1:]  # the first one is the name
    given = members if isinstance(members, dict) else {}
    names = [field.encode_name for field in fields]
    return {name: given[name] for name in names if given.get(name) is not None and name != ORDER}
