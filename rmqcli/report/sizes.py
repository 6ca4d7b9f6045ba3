"""Histograms of sizes by powers of two."""

from __future__ import annotations

from collections.abc import Mapping

from rmqcli.render.text import size
from rmqcli.report.page import Plot, Series

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
