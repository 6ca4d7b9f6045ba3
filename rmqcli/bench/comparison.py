"""Judges a result by an older one: the documents of `--json`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rmqcli.bench.histogram import PERCENTILES

SAME = ("bench", "rate", "size", "inFlight")
"""Members that both documents have to agree in."""
_EXPECTED = "expected a document of rmq bench --json"

Read = Callable[[Mapping[str, Any]], float | None]


class NotComparable(Exception):
    """A document that is none of this benchmark, or of another load; the text says which."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure, old and new; None where no operation succeeded. `change` is in percent of the old one."""

    name: str
    old: float | None
    new: float | None
    worse: bool

    @property
    def change(self) -> float | None:
        if self.old is None or self.new is None or not self.old:
            return None
        return (self.new - self.old) / self.old * 100


def check_load(old: object, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the older document; raises NotComparable if it is not of the load that `new` has."""
    if not isinstance(old, dict):
        raise NotComparable(_EXPECTED)
    for name in SAME:
        if old.get(name) != new[name]:
            raise NotComparable(f"{name} is {old.get(name)} there and {new[name]} here")
    try:
        list(_differences(old, old, 0))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise NotComparable(_EXPECTED) from None
    return old


def compare(old: Mapping[str, Any], new: Mapping[str, Any], tolerance: float) -> list[Difference]:
    """Compare done operations a second, failed ones, and percentiles of the latency.

    A figure is worse if it is worse by more than `tolerance` percent of the old one. The maximum and the mean
    are not judged, because a single operation makes them.
    """
    return list(_differences(old, new, tolerance))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], tolerance: float) -> Iterator[Difference]:
    for name, (read, sign) in _FIGURES.items():
        before, now = read(old), read(new)
        yield Difference(name, before, now, _is_worse(before, now, sign, tolerance))


def _is_worse(old: float | None, new: float | None, sign: int, tolerance: float) -> bool:
    if new is None or old is None:
        return new is None and old is not None
    return sign * (new - old) > abs(old) * tolerance / 100


def _missed(document: Mapping[str, Any]) -> float:
    return float(sum(document["failed"].values()) + document["notStarted"])


def _percentile(name: str) -> Read:
    def read(document: Mapping[str, Any]) -> float | None:
        value = document["latency"][name]
        return None if value is None else float(value)

    return read


_FIGURES: Mapping[str, tuple[Read, int]] = {
    "doneRate": (lambda document: float(document["doneRate"]), -1),
    "missed": (_missed, 1),
    **{name: (_percentile(name), 1) for name in PERCENTILES},
}
"""By name: where a figure is, and 1 if more is worse, -1 if less is."""
