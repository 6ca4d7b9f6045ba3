"""Figures over the last minutes: how they change, and when they are zero. Times are seconds of any clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import NamedTuple

SPAN = 300.0  # seconds that are kept
WINDOW = 60.0  # seconds that the change is taken from
POINTS = 20


class Trend(NamedTuple):
    """At most POINTS values, the last one last; the change per second, None for fewer than two values; and
    the seconds to zero at this rate, None if it does not fall.
    """

    values: tuple[int, ...]
    change: float | None
    eta: float | None


class Trends:
    """The values of figures by name."""

    def __init__(self) -> None:
        self._known: dict[Hashable, deque[tuple[float, int]]] = {}

    def note(self, name: Hashable, value: int | None, now: float) -> Trend:
        """Add a value, unless it is unknown, and return the trend."""
        known = self._known.setdefault(name, deque())
        if value is not None:
            known.append((now, value))
        while known and known[0][0] < now - SPAN:
            known.popleft()
        change = _change([one for one in known if one[0] >= now - WINDOW])
        return Trend(_thinned([one for _, one in known]), change, _eta(value, change))

    def drop(self, name: Hashable) -> None:
        """Forget the values of a name."""
        self._known.pop(name, None)


def _change(found: list[tuple[float, int]]) -> float | None:
    if len(found) < 2 or found[-1][0] <= found[0][0]:
        return None
    return (found[-1][1] - found[0][1]) / (found[-1][0] - found[0][0])


def _eta(value: int | None, change: float | None) -> float | None:
    if value == 0:
        return 0.0
    return None if value is None or change is None or change >= 0 else value / -change


def _thinned(values: list[int]) -> tuple[int, ...]:
    if len(values) <= POINTS:
        return tuple(values)
    last = len(values) - 1
    return tuple(values[round(place * last / (POINTS - 1))] for place in range(POINTS))
