"""Sizes as bars, rates as a line of blocks, the most frequent keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmqcli.render.text import duration, local_time, many, printable, size
from rmqcli.store.distribution import Distribution

__all__ = ["distribution_document", "show_distribution", "sparkline"]

TOP_KEYS = 10
_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR = 40


def sparkline(counts: Sequence[int]) -> str:
    """One character a count; a blank for none."""
    highest = max(counts, default=0)
    return "".join(" " if not count else _BLOCKS[(count * len(_BLOCKS) - 1) // highest] for count in counts)


def distribution_document(found: Distribution) -> dict[str, Any]:
    """For JSON: `sizes` by the power of two that is not reached, `rate` in steps of `stepMillis`, `topKeys`."""
    return {
        "sizes": [{"below": below, "records": count} for below, count in sorted(found.sizes.items())],
        "rate": {"from": found.begin, "stepMillis": found.step, "records": found.rates},
        "topKeys": [{"key": key, "records": count} for key, count in found.keys.most_common(TOP_KEYS)],
    }


def show_distribution(found: Distribution) -> None:
    """For a terminal of 80 columns."""
    highest = max(found.sizes.values(), default=0)
    print("\nrecord sizes")
    for below, count in sorted(found.sizes.items()):
        print(f"  {'<':>3} {size(below):<10} {count:>12,}  {'█' * max(count * _BAR // highest, 1)}")
    if found.rates:
        seconds = found.step / 1000
        print(f"\nrecords in steps of {duration(seconds)} from {local_time(found.begin)}")
        print(f"  {sparkline(found.rates)}  at most {max(found.rates) / seconds:,.0f}/s")
    if found.keys:
        print("\nmost frequent keys")
        for key, count in found.keys.most_common(TOP_KEYS):
            print(f"  {printable(key)[:60]}  {many(count, 'record')}")
