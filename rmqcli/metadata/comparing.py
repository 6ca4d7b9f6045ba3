"""Two states of a cluster compared, setting by setting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from rmqcli.metadata.values import AREAS, Metadata, Places, Setting

Kind = Literal["changed", "removed", "added"]


class Difference(NamedTuple):
    """One setting: `removed` is only in the first state, `added` only in the second.

    `changes` are texts such as `perm 6 → 4`; a member that is not there is `-`.
    """

    area: str
    place: str
    name: str
    difference: Kind
    changes: tuple[str, ...] = ()


def compared(first: Metadata, second: Metadata) -> list[Difference]:
    """Return the differences in the areas that both have, without brokers that one of them misses."""
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
    """Return what differs between two settings, a text for each member."""
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
