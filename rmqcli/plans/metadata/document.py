"""Metadata of a cluster as a value, area → place → name → setting, and as a document of JSON.

| area | place | name | setting |
|---|---|---|---|
| topics, groups | broker | topic, group | members of Java's `TopicConfig`, `SubscriptionGroupConfig` |
| kv | namespace | name | text |
| config | broker | property | text |
| offsets | broker | `topic@group` | queue number (as text) → offset |

Members of a document: `kind` (`clusterMetadata`), `version` (1), `missing` (brokers that did not respond),
and one for each dumped area. Names are sorted, so that equal clusters give equal bytes. The schema is
`clusterMetadata` of rmqcli/render/output.schema.json.

Files written by mqadmin's `exportMetadata` (topic.json, subscriptionGroup.json, metadata.json) and
`exportConfigs` (configs.json) can also be read, and so can the tables of a store's `config` folder, which
have the same form. They name no brokers, so they apply to every broker. An export of a cluster (`-c`; it has
an `exportTime`) adds up the queues of a topic and the retry queues of a group over its masters (Java
`ExportMetadataCommand` of 4.9 and 5.x).

Some settings belong to one cluster and must not be copied to another one: system topics and groups, names,
addresses, secrets; and retry and dead-letter topics, because brokers create them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from rmqcli.client.admin.topics import ORDER_NAMESPACE
from rmqcli.codec.bodies.config import SubscriptionGroupConfig, TopicConfig
from rmqcli.codec.edited import unmarked
from rmqcli.codec.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic, reply_topic
from rmqcli.flows.errors import InvalidInput
from rmqcli.plans.properties import is_of_one_broker
from rmqcli.plans.settings import GROUPS, TOPICS, Kind, entry_of

Setting: TypeAlias = "str | Mapping[str, Any]"
Places: TypeAlias = "Mapping[str, Mapping[str, Setting]]"

AREAS: Final = ("topics", "groups", "kv", "config", "offsets")
EVERY_BROKER: Final = "*"
"""The place of settings for every broker, such as those of mqadmin's exports."""

ORDER: Final = "order"
"""The member of a topic that brokers take from the layouts in name servers (namespace ORDER_TOPIC_CONFIG)."""


class Metadata(NamedTuple):
    """The known areas. `missing` are brokers that did not respond; their settings are unknown.

    `summed` is True if the number of queues of a topic is the sum over several brokers.
    """

    areas: Mapping[str, Places]
    missing: tuple[str, ...] = ()
    summed: bool = False

    @property
    def brokers(self) -> set[str]:
        """The brokers of all areas, without EVERY_BROKER."""
        found = {place for area, places in self.areas.items() if area != "kv" for place in places}
        return found - {EVERY_BROKER}


def areas_of(text: str | None, default: Sequence[str]) -> list[str]:
    """Return the areas of a comma-separated list in the order of AREAS. Raise InvalidInput for others."""
    names = default if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in AREAS:
            raise InvalidInput(f"--only {name}: expected {', '.join(AREAS[:-1])} or {AREAS[-1]}")
    return [area for area in AREAS if area in names]


def spread(metadata: Metadata, brokers: Collection[str], *, limited: bool) -> Metadata:
    """Return the metadata with the settings of every broker given to each of `brokers`.

    With `limited`, other brokers are omitted. Settings of one broker take precedence over those of every
    broker.
    """
    areas: dict[str, Places] = {}
    for area, places in metadata.areas.items():
        if area == "kv":
            areas[area] = places
            continue
        common = places.get(EVERY_BROKER)
        own = {name: dict(table) for name, table in places.items() if name != EVERY_BROKER}
        if common is not None:
            own = {name: {**common, **own.get(name, {})} for name in {*own, *brokers}}
        areas[area] = {name: table for name, table in own.items() if not limited or name in brokers}
    return metadata._replace(areas=areas)


def chosen(metadata: Metadata, areas: Collection[str]) -> Metadata:
    """Return the metadata of some areas only."""
    return metadata._replace(areas={name: table for name, table in metadata.areas.items() if name in areas})


_OF_ONE_CLUSTER: Final = frozenset(["brokerClusterName", "namesrvAddr", "namesrvDomain", "controllerAddr"])
_SECRET: Final = ("credential", "password", "secret", "initauthenticationuser")


def without_own(metadata: Metadata, clusters: Collection[str] = ()) -> Metadata:
    """Return the metadata without settings specific to brokers and to `clusters`."""
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


VERSION: Final = 1
KIND: Final = "clusterMetadata"
ENTRIES: Final[Mapping[str, Kind]] = {"topics": TOPICS, "groups": GROUPS}

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Key = Annotated[str, msgspec.Meta(pattern="^[^@]+@[^@]+$")]
_Queue = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}$")]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["clusterMetadata"]
    version: int
    missing: list[str] = []
    topics: dict[str, dict[str, dict[str, Any]]] | None = None
    groups: dict[str, dict[str, dict[str, Any]]] | None = None
    kv: dict[str, dict[str, str]] | None = None
    config: dict[str, dict[str, str]] | None = None
    offsets: dict[str, dict[_Key, dict[_Queue, _Offset]]] | None = None


def document_of(metadata: Metadata) -> dict[str, Any]:
    """Return the members of the document but its version."""
    return {"kind": KIND, "missing": sorted(metadata.missing), **metadata.areas}


def encoded(metadata: Metadata) -> bytes:
    """Return the document as lines of text."""
    data = msgspec.json.encode(document_of(metadata) | {"version": VERSION}, order="sorted")
    return msgspec.json.format(data, indent=2) + b"\n"


def read_metadata(path: Path) -> Metadata:
    """Return the content of a dump or of an export of mqadmin. Raise OSError, and InvalidInput, which names
    the defect.
    """
    try:
        content = msgspec.json.decode(unmarked(path.read_bytes()))
    except ValueError as error:  # including msgspec's
        raise InvalidInput(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise InvalidInput(f"{path}: no object, so neither a dump nor an export of mqadmin")
    found = _own(path, content) if content.get("kind") == KIND else export_of(content)
    if found is None:
        raise InvalidInput(f"{path}: neither a dump of rmq nor an export of mqadmin")
    _check(path, found)
    return found


def _own(path: Path, content: dict[str, Any]) -> Metadata:
    if content.get("version") != VERSION:
        raise InvalidInput(f"{path}: version {content.get('version')!r} of the document; {VERSION} is known")
    try:
        document = msgspec.convert(content, _Document)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{path}: {error}") from None
    areas = {area: getattr(document, area) for area in AREAS if getattr(document, area) is not None}
    return Metadata(areas, tuple(document.missing))


def _check(path: Path, metadata: Metadata) -> None:
    """Raise InvalidInput for a topic or group that no broker could have."""
    for area, kind in ENTRIES.items():
        for place, table in without_own(metadata).areas.get(area, {}).items():
            for name, members in table.items():
                where = f"{path}: {area}.{place}.{name}"
                entry_of(where, {**dict(members), kind.key: name}, kind)  # type: ignore[arg-type]


_TABLES: Final[Mapping[str, tuple[str, type[TopicConfig] | type[SubscriptionGroupConfig]]]] = {
    "topicConfigTable": ("topics", TopicConfig),
    "subscriptionGroupTable": ("groups", SubscriptionGroupConfig),
}


def export_of(content: Mapping[str, Any]) -> Metadata | None:
    """Return the metadata of an export, or None if the content is not an export. Unknown members are omitted."""
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


OTHERS: Final = "*"
"""Represents every broker of the file that is not named otherwise, and every broker of the cluster."""


def names_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the new name of each broker from strings `OLD=NEW`; raise InvalidInput for other strings."""
    names: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise InvalidInput(f"--map-broker {text}: expected OLD=NEW, names of brokers or *")
        if old in names:
            raise InvalidInput(f"--map-broker {text}: {old} has a new name already, {names[old]}")
        names[old] = new
    return names


def renamed(metadata: Metadata, names: Mapping[str, str], brokers: Collection[str]) -> Metadata:
    """Return the metadata with the new names of its brokers. Raise InvalidInput if it lacks one of these
    brokers, or if two that become one have different settings.

    `brokers` are those of the cluster, for the layouts of ordered topics.
    """
    there = {*metadata.brokers, *metadata.missing, *_of_layouts(metadata)}
    for old in names:
        if old != OTHERS and old not in there:
            known = f"has only {', '.join(sorted(there))}" if there else "names no broker"
            raise InvalidInput(f"--map-broker {old}={names[old]}: the file {known}")
    new = {old: names.get(old, names.get(OTHERS, old)) for old in there}
    areas = {
        area: _layouts(places, new, brokers) if area == "kv" else _merged(area, places, new)
        for area, places in metadata.areas.items()
    }
    return metadata._replace(areas=areas, missing=tuple(sorted({new[name] for name in metadata.missing})))


def _of_layouts(metadata: Metadata) -> set[str]:
    texts = metadata.areas.get("kv", {}).get(ORDER_NAMESPACE, {}).values()
    return {part.rpartition(":")[0] for text in texts for part in str(text).split(";")} - {""}


def _merged(area: str, places: Places, new: Mapping[str, str]) -> Places:
    found: dict[str, dict[str, Setting]] = {}
    for place, table in places.items():
        target = found.setdefault(EVERY_BROKER if place == EVERY_BROKER else new[place], {})
        for name, setting in table.items():
            if target.setdefault(name, setting) != setting:
                both = " and ".join(sorted(old for old in new if new[old] == new.get(place)))
                raise InvalidInput(f"--map-broker: {area} {name} is not the same on {both}, which become one")
    return found


def _layouts(places: Places, new: Mapping[str, str], brokers: Collection[str]) -> Places:
    """Return the entries of name servers; the layouts of ordered topics, `broker-a:4;broker-b:4`, name brokers."""
    table = places.get(ORDER_NAMESPACE)
    if table is None:
        return places
    return {
        **places,
        ORDER_NAMESPACE: {name: _layout(str(text), new, brokers) for name, text in table.items()},
    }


def _layout(text: str, new: Mapping[str, str], brokers: Collection[str]) -> str:
    counts: dict[str, str] = {}
    for part in text.split(";"):
        old, _, count = part.rpartition(":")
        target = new.get(old, old)
        for name in sorted(brokers) if target == EVERY_BROKER else [target]:
            counts.setdefault(name, count)
    return ";".join(f"{name}:{count}" for name, count in counts.items())
