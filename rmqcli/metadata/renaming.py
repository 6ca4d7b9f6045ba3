"""Gives the settings of brokers to brokers of other names: those of another cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from rmqcli.client.admin.topics import ORDER_NAMESPACE
from rmqcli.flows.errors import InvalidInput
from rmqcli.metadata.values import EVERY_BROKER, Metadata, Places, Setting

OTHERS: Final = "*"
"""Stands for every broker of the file that has no name of its own, and for every broker of the cluster."""


def names_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the new name of each broker from texts `OLD=NEW`; raise InvalidInput for other texts."""
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
    """Return the metadata with the new names of its brokers. InvalidInput if it lacks one of these brokers, or
    if two that become one have unlike settings.

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
