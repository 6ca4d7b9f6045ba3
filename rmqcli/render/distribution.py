"""Shows sizes as bars, rates as a line of blocks, and the most frequent keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rmqcli.render.output import OutputSettings
from rmqcli.render.table import Column, show_document, show_rows
from rmqcli.render.text import duration, local_time, many, printable, size
from rmqcli.store.stats.distribution import Distribution, Rate
from rmqcli.store.stats.index_load import IndexSpread

TOP_KEYS = 10
SHOWN_LENGTHS = 20
_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR = 40
_CHAINS = (Column("LENGTH", "length", number=True), Column("SLOTS", "slots", number=True))


def sparkline(counts: Sequence[int]) -> str:
    """Return one character per count; a space for zero."""
    highest = max(counts, default=0)
    return "".join(" " if not count else _BLOCKS[(count * len(_BLOCKS) - 1) // highest] for count in counts)


def distribution_document(found: Distribution) -> dict[str, Any]:
    """Return the document: `sizes` by exclusive power of two, `rate` by `stepMillis`, and `topKeys`."""
    return {
        "sizes": [{"below": below, "records": count} for below, count in sorted(found.sizes.items())],
        "rate": _rate_document(found.rate, "records"),
        "topKeys": [{"key": key, "records": count} for key, count in found.frequent_keys(TOP_KEYS)],
    }


def _rate_document(rate: Rate, what: str) -> dict[str, Any]:
    return {"from": rate.begin, "stepMillis": rate.step, what: rate.counts}


def show_distribution(found: Distribution) -> None:
    """Show a distribution on a terminal of 80 columns."""
    print("\nrecord sizes")
    _show_bars({f"{'<':>3} {size(below):<10}": count for below, count in sorted(found.sizes.items())})
    _show_rate("records", found.rate)
    if found.keys:
        print("\nmost frequent keys")
        frequent = found.frequent_keys(TOP_KEYS)
        for key, count in frequent:
            print(f"  {printable(key)}  {many(count, 'record')}")
        if not frequent:
            print("  none is in more than one record")


def show_index_spread(settings: OutputSettings, found: IndexSpread) -> None:
    """Show chain lengths. JSON: one document; TSV: chain length, number of slots with a chain of that length."""
    chains = sorted(found.chains.items())
    items = sum(length * count for length, count in chains)
    if settings.json:
        listed = [{"length": length, "slots": count} for length, count in chains]
        document = {"files": found.files, "items": items, "chains": listed}
        show_document(
            settings, document | {"rate": _rate_document(found.rate, "items")}, "the JSON of --stats"
        )
        return
    if not settings.terminal:
        show_rows(settings, _CHAINS, chains)
        return
    print(f"{many(items, 'item')} in {many(found.files, 'file')}")
    if chains:
        print("\nslots by the length of their chain")
        _show_bars({f"{length:>14,}": count for length, count in chains[:SHOWN_LENGTHS]})
        if len(chains) > SHOWN_LENGTHS:
            print(f"  … and longer ones, up to {chains[-1][0]:,} (--json shows all)")
    _show_rate("items", found.rate)


def _show_bars(counts: Mapping[str, int]) -> None:
    highest = max(counts.values(), default=0)
    for name, count in counts.items():
        # At least one block: a small count must not look like none.
        print(f"  {name} {count:>12,}  {'█' * max(count * _BAR // highest, 1)}")


def _show_rate(what: str, rate: Rate) -> None:
    if rate.counts:
        seconds = rate.step / 1000
        print(f"\n{what} in steps of {duration(seconds)} from {local_time(rate.begin)}")
        print(f"  {sparkline(rate.counts)}  at most {max(rate.counts) / seconds:,.0f}/s")
