"""The comparison of two states of a cluster, and the plan that makes a cluster match a document.

Members that a document does not name are kept. Settings that exist only in the cluster are deleted on
request: entries of name servers, groups by broker, and topics that the document has on no broker, because a
topic is removed from the name servers as a whole. Properties and offsets are never deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from rmqcli.flows.errors import InvalidInput
from rmqcli.plans.metadata.document import AREAS, Metadata, Places, Setting
from rmqcli.plans.metadata.reading import State

Action = Literal["create", "change", "same", "extra", "delete"]
_DELETED: Final = ("topics", "groups", "kv")


class Step(NamedTuple):
    """The change of one setting; `extra` marks a setting that exists only in the cluster and is kept.
    `changes` are for people.
    """

    area: str
    place: str
    name: str
    action: Action
    changes: tuple[str, ...]
    wanted: Setting = ""


def check_applicable(wanted: Metadata, masters: Collection[str], *, prune: bool) -> None:
    """Raise InvalidInput for a document that cannot be applied to these brokers."""
    unknown = sorted(wanted.brokers.difference(masters, wanted.missing))
    if unknown:
        known = ", ".join(sorted(masters))
        raise InvalidInput(
            f"the file has {', '.join(unknown)}, the cluster only {known}: {_advice(wanted, masters, unknown)}"
        )
    check_sums(wanted, masters)
    if prune and wanted.missing:
        raise InvalidInput(f"--prune: {', '.join(wanted.missing)} did not answer when the file was dumped")


def check_selected(wanted: Metadata, file: Metadata, masters: Collection[str]) -> None:
    """Raise InvalidInput if a file has settings of brokers, but `wanted` has none left for the chosen ones."""
    if file.brokers and not wanted.brokers:
        chosen, there = ", ".join(sorted(masters)), ", ".join(sorted(file.brokers))
        raise InvalidInput(
            f"the file has nothing for {chosen}, only for {there}: {_advice(file, masters, sorted(file.brokers))}"
        )


def _advice(wanted: Metadata, masters: Collection[str], unknown: Sequence[str]) -> str:
    new = next(iter(sorted({*masters} - wanted.brokers) or sorted(masters)))
    mapping = f"take one for another with --map-broker {unknown[0]}={new}"
    return f"choose with --broker, or {mapping}" if wanted.brokers & {*masters} else mapping


def check_sums(wanted: Metadata, masters: Collection[str]) -> None:
    """Raise InvalidInput for sums of several brokers where there are several."""
    if wanted.summed and len(masters) > 1:
        raise InvalidInput(
            "mqadmin's exportMetadata -c adds up the queues of all masters: export each broker with its -b, "
            "or choose one with --broker"
        )


def planned(wanted: Metadata, state: State, *, prune: bool) -> list[Step]:
    """Return the steps for every setting of the places in `wanted`, in the order of AREAS."""
    skipped = {*wanted.missing, *state.metadata.missing}
    return [
        step
        for area in AREAS
        for place, table in sorted(wanted.areas.get(area, {}).items())
        if area == "kv" or place not in skipped
        for step in _place(area, place, table, wanted, state, prune)
    ]


def _place(
    area: str, place: str, table: Mapping[str, Setting], wanted: Metadata, state: State, prune: bool
) -> Iterator[Step]:
    there = state.metadata.areas[area].get(place, {})
    for name in sorted({*table, *there} if area in _DELETED else table):
        if name in table:
            unlike = area == "kv" and (place, name) in state.unlike
            yield _put(area, place, name, table[name], there.get(name), unlike)
        else:
            deleted = prune and (area != "topics" or not _has_topic(wanted, name))
            yield Step(area, place, name, "delete" if deleted else "extra", ())


def _put(area: str, place: str, name: str, setting: Setting, old: Setting | None, unlike: bool) -> Step:
    if old is None:
        members = setting.items() if isinstance(setting, Mapping) else ()
        texts = tuple(f"{member} {value}" for member, value in members) or (str(setting),)
        return Step(area, place, name, "create", texts, setting)
    if isinstance(setting, Mapping) and isinstance(old, Mapping):
        setting = {**old, **setting} if area != "offsets" else setting
        old = {member: old[member] for member in old if member in setting}
    texts = (f"not the same on all name servers → {setting}",) if unlike else changes(old, setting)
    return Step(area, place, name, "change" if texts else "same", texts, setting)


def _has_topic(wanted: Metadata, topic: str) -> bool:
    return any(topic in table for table in wanted.areas["topics"].values())


def lost_with(steps: Sequence[Step]) -> list[str]:
    """Return a description of the deletions in the steps, one string per area."""
    found = []
    for area in _DELETED:
        names = list(
            dict.fromkeys(step.name for step in steps if step.area == area and step.action == "delete")
        )
        if names:
            found.append(f"{area} {', '.join(names)}")
    return found


Kind = Literal["changed", "removed", "added"]


class Difference(NamedTuple):
    """One setting: `removed` is only in the first state, `added` only in the second.

    `changes` are strings such as `perm 6 → 4`; an absent member is `-`.
    """

    area: str
    place: str
    name: str
    difference: Kind
    changes: tuple[str, ...] = ()


def compared(first: Metadata, second: Metadata) -> list[Difference]:
    """Return the differences in the areas that both have, without brokers that are missing from one of them."""
    missing = {*first.missing, *second.missing}
    return [
        found
        for area in AREAS
        if area in first.areas and area in second.areas
        for found in _area(area, first.areas[area], second.areas[area], set() if area == "kv" else missing)
    ]


def _area(area: str, first: Places, second: Places, missing: Collection[str]) -> Iterator[Difference]:
    for place in sorted({*first, *second}.difference(missing)):
        old, new = first.get(place, {}), second.get(place, {})
        for name in sorted({*old, *new}):
            if name not in new:
                yield Difference(area, place, name, "removed")
            elif name not in old:
                yield Difference(area, place, name, "added")
            elif texts := changes(old[name], new[name]):
                yield Difference(area, place, name, "changed", texts)


def changes(old: Setting, new: Setting) -> tuple[str, ...]:
    """Return the differences between two settings, one string per member."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = sorted({*old, *new}, key=lambda name: (len(name), name) if name.isdigit() else (0, name))
        return tuple(
            f"{name} {_text(old.get(name))} → {_text(new.get(name))}"
            for name in names
            if old.get(name) != new.get(name)
        )
    return () if old == new else (f"{old} → {new}",)


def _text(value: Any) -> str:
    return "-" if value is None else msgspec.json.encode(value).decode()
