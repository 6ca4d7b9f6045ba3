"""Compares the registered brokers with those that earlier runs saw."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rmqcli.cli.settings import Settings

if TYPE_CHECKING:
    from rmqcli.doctor.survey import LostBroker, Place


class Look(NamedTuple):
    """The brokers that are missing; `notes`: why brokers of earlier runs are unknown."""

    gone: list[LostBroker]
    notes: list[str]


def looked(
    settings: Settings,
    places: Mapping[str, Place],
    now_ms: int,
    *,
    names: Collection[str] = (),
    expected: int = 0,
) -> Look:
    """Compare the registered brokers with those of earlier runs, and store them for later runs.

    `names` are the brokers that count, by default all; `expected` is the number of brokers that must be
    registered: if that many are, none is missing.
    """
    from rmqcli.doctor.survey import SeenFile

    file = SeenFile(settings.namesrv)
    seen = file.read()
    if expected and len(places) >= expected:
        seen.note(places, now_ms)
        gone = []
    else:
        gone = [one for one in seen.missing(places, now_ms) if not names or one.name in names]
    file.write(seen)
    return Look(gone, [] if file.trouble is None else [file.reason])
