"""Settings that a cluster has of its own, and no other cluster is to get: system topics and groups, names,
addresses, secrets.

Retry and dead-letter topics belong here, because brokers create them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from codec.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic, reply_topic
from rmqcli.flows.configuring import is_of_one_broker
from rmqcli.metadata.values import Metadata

_OF_ONE_CLUSTER: Final = frozenset(["brokerClusterName", "namesrvAddr", "namesrvDomain", "controllerAddr"])
_SECRET: Final = ("credential", "password", "secret", "initauthenticationuser")


def without_own(metadata: Metadata, clusters: Collection[str] = ()) -> Metadata:
    """Return the metadata without what belongs to brokers and `clusters` themselves."""
    areas = {
        area: {
            place: {
                name: setting for name, setting in table.items() if not _is_own(area, place, name, clusters)
            }
            for place, table in places.items()
        }
        for area, places in metadata.areas.items()
    }
    return metadata._replace(areas=areas)


def _is_own(area: str, place: str, name: str, clusters: Collection[str]) -> bool:
    test = _TESTS.get(area)
    return test is not None and test(name, {place, *clusters, *map(reply_topic, clusters)})


def _own_topic(topic: str, names: Collection[str]) -> bool:
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or topic in names


def _own_group(group: str, names: Collection[str]) -> bool:
    return is_system_group(group)


def _own_property(name: str, names: Collection[str]) -> bool:
    return is_of_one_broker(name) or name in _OF_ONE_CLUSTER or any(word in name.lower() for word in _SECRET)


def _own_offset(key: str, names: Collection[str]) -> bool:
    topic, _, group = key.partition("@")
    return _own_topic(topic, names) or _own_group(group, names)


_TESTS: Final[Mapping[str, Callable[[str, Collection[str]], bool]]] = {
    "topics": _own_topic,
    "groups": _own_group,
    "config": _own_property,
    "offsets": _own_offset,
}
