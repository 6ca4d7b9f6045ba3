"""Metadata of a cluster as a value: area → place → name → setting.

| area | place | name | setting |
|---|---|---|---|
| topics, groups | broker | topic, group | members of Java's `TopicConfig`, `SubscriptionGroupConfig` |
| kv | namespace | name | text |
| config | broker | property | text |
| offsets | broker | `topic@group` | queue number (as text) → offset |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from rmqcli.flows.errors import InvalidInput

Setting: TypeAlias = "str | Mapping[str, Any]"
Places: TypeAlias = "Mapping[str, Mapping[str, Setting]]"

AREAS: Final = ("topics", "groups", "kv", "config", "offsets")
EVERY_BROKER: Final = "*"
"""The place of settings that every broker is to have, as those of mqadmin's exports."""

ORDER: Final = "order"
"""The member of a topic that brokers take from the layouts in name servers (namespace ORDER_TOPIC_CONFIG)."""


class Metadata(NamedTuple):
    """The areas that are known. `missing` are brokers that did not answer; nothing is said about them.

    `summed` is True if the queues of a topic are the sum of those of several brokers.
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
    """Return the areas that a comma-separated text names, in the order of AREAS; InvalidInput for others."""
    names = default if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in AREAS:
            raise InvalidInput(f"--only {name}: expected {', '.join(AREAS[:-1])} or {AREAS[-1]}")
    return [area for area in AREAS if area in names]


def spread(metadata: Metadata, brokers: Collection[str], *, limited: bool) -> Metadata:
    """Return the metadata with the settings of every broker given to each of `brokers`.

    With `limited`, other brokers are left out. Settings of a broker itself precede those of every broker.
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
