"""Plots over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqcli.render.text import short_number
from rmqcli.report.cells import utc
from rmqcli.report.html import COLORS
from rmqcli.report.page import Plot, Series

_SECONDS, _MINUTES, _DAYS = 600_000, 129_600_000, 5_184_000_000
"""The spans (ms) up to which an axis shows seconds, minutes, days with minutes; longer ones have years."""


def over_time(title: str, begin: int, step: int, series: Sequence[Series], *, narrow: bool = False) -> Plot:
    """Return a plot of steps of `step` ms from `begin` (epoch ms)."""
    count = max((len(one.values) for one in series), default=0)
    times = [begin + number * step for number in range(count)]
    marks = _marks(count, 3 if narrow else 6)
    form = _form(count * step)
    labels = [
        _shown(time, form if place in marks else "%Y-%m-%d %H:%M:%S") for place, time in enumerate(times)
    ]
    return Plot(title, labels, series, marks=marks, narrow=narrow)


def _marks(count: int, wanted: int) -> list[int]:
    """Return at most `wanted` places at equal distances, away from both edges."""
    if count <= wanted:
        return list(range(count))
    return sorted({(2 * number + 1) * count // (2 * wanted) for number in range(wanted)})


def _form(span: int) -> str:
    if span <= _SECONDS:
        return "%H:%M:%S"
    if span <= _MINUTES:
        return "%H:%M"
    return "%m-%d %H:%M" if span <= _DAYS else "%Y-%m-%d"


def _shown(time: int, form: str) -> str:
    found = utc(time)
    return "unknown" if found is None else f"{found:{form}}"


def by_share(counts: Mapping[str, Sequence[int]], totals: Sequence[int]) -> list[Series]:
    """Return the series with the largest sums, in order, and one for the others of `totals`."""
    ordered = sorted(counts, key=lambda name: (-sum(counts[name]), name))
    shown = ordered[: COLORS - 1] if len(ordered) > COLORS else ordered[:COLORS]
    found = [_series(name, counts[name]) for name in shown if sum(counts[name])]
    parts = zip(*(one.values for one in found), strict=True) if found else [()] * len(totals)
    rest = [max(0, total - sum(part)) for total, part in zip(totals, parts, strict=True)]
    return [*found, _series("others", rest)] if any(rest) else found


def _series(name: str, values: Sequence[int]) -> Series:
    return Series(name, values, short_number(sum(values)))
