"""The plan that makes a cluster what a document says.

Members that a document does not name stay as they are. What only the cluster has is deleted if that is
wanted: entries of name servers, groups by broker, and topics that the document has on no broker, because a
topic goes from the name servers as a whole. Properties and offsets are never deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from rmqcli.flows.errors import InvalidInput
from rmqcli.metadata.comparing import changes
from rmqcli.metadata.reading import State
from rmqcli.metadata.values import AREAS, Metadata, Setting

Action = Literal["create", "change", "same", "extra", "delete"]
_DELETED: Final = ("topics", "groups", "kv")


class Step(NamedTuple):
    """The change of one setting; `extra` is only in the cluster and stays there. `changes` are for people."""

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
    """Raise InvalidInput if nothing that a file says of brokers is left in `wanted` for those chosen."""
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
    """Return the steps for every setting of the places that `wanted` has, in the order of AREAS."""
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
    """Return what the steps delete, a text for each area."""
    found = []
    for area in _DELETED:
        names = list(
            dict.fromkeys(step.name for step in steps if step.area == area and step.action == "delete")
        )
        if names:
            found.append(f"{area} {', '.join(names)}")
    return found
