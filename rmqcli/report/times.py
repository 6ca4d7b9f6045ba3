"""Plots over time and by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqcli.render.text import short_number, size
from rmqcli.report.cells import utc
from rmqcli.report.html import COLORS
from rmqcli.report.page import Plot, Series

_SECONDS, _MINUTES, _DAYS = 600_000, 129_600_000, 5_184_000_000
"""The durations (ms) up to which an axis shows seconds, minutes, or days with minutes; longer axes show
years.
"""


def over_time(title: str, begin: int, step: int, series: Sequence[Series], *, narrow: bool = False) -> Plot:
    """Return a plot of intervals of `step` ms from `begin` (epoch ms)."""
    count = max((len(one.values) for one in series), default=0)
    times = [begin + number * step for number in range(count)]
    marks = _marks(count, 3 if narrow else 6)
    form = _form(count * step)
    labels = [
        _shown(time, form if place in marks else "%Y-%m-%d %H:%M:%S") for place, time in enumerate(times)
    ]
    return Plot(title, labels, series, marks=marks, narrow=narrow)


def _marks(count: int, wanted: int) -> list[int]:
    """Return at most `wanted` positions at equal distances, away from both edges."""
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


_MARKS = 5
_LEAST = 6  # steps of the axis: a single bar across the plot would look like a wall


def histogram(title: str, counts: Mapping[int, int], *, narrow: bool = False) -> Plot:
    """Return the plot of counts by the bit length of sizes in bytes: `n` is [2**(n-1), 2**n), 0 is empty."""
    lengths = [bits for bits, count in counts.items() if count]
    first, last = min(lengths, default=0), max(lengths, default=0)
    first = max(0, first - max(0, _LEAST - (last - first)) // 2)
    places = range(first, max(last, first + _LEAST) + 1)
    every = -(-len(places) // _MARKS) if narrow else -(-len(places) // (3 * _MARKS))
    marks = range(0, len(places), every or 1)
    labels = [_label(bits, short=place in marks) for place, bits in enumerate(places)]
    values = [counts.get(bits, 0) for bits in places]
    return Plot(title, labels, [Series("", values)], marks=list(marks), narrow=narrow)


def _label(bits: int, *, short: bool) -> str:
    if bits < 2:
        return "empty" if not bits else "1 B"
    low = size(1 << bits - 1).replace(".0 ", " ")
    return f"≥ {low}" if short else f"{low} to {size((1 << bits) - 1)}"
