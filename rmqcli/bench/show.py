"""Draws a result as rows and as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rmqcli.bench.histogram import PERCENTILES, Bucket, Difference, coarse
from rmqcli.bench.running import Tally
from rmqcli.render import Column

_MILLI = 1000  # microseconds
_TITLES = {"min": "MIN MS", "p50": "P50", "p90": "P90", "p99": "P99", "p999": "P99.9", "max": "MAX"}
MISSED = ("failed", "notStarted")
COLUMNS = (
    Column("TIMES", "times"),
    Column("DONE", "done", number=True),
    Column("FAILED", "failed", number=True),
    Column("NOT STARTED", "notStarted", number=True),
    *(Column(title, name, number=True) for name, title in _TITLES.items()),
)
COMPARED = (
    Column("FIGURE", "figure"),
    Column("OLD", "old", number=True),
    Column("NEW", "new", number=True),
    Column("CHANGE %", "change", number=True),
    Column("", "worse", show=lambda worse: "worse" if worse else ""),
)


def rows(tally: Tally) -> list[list[Any]]:
    """Return a row for the latency and one for the service time, in milliseconds."""
    failed = sum(tally.failed.values())
    found = {"latency": tally.latency, "service": tally.service}
    return [
        [name, tally.done, failed, tally.not_started, *_in_millis(times.summary())]
        for name, times in found.items()
    ]


def _in_millis(summary: Mapping[str, float | None]) -> list[float | None]:
    values = [summary[name] for name in _TITLES]
    return [None if value is None else value / _MILLI for value in values]


def compared(differences: Sequence[Difference]) -> list[list[Any]]:
    """Return a row for each figure; percentiles in milliseconds."""
    return [
        [
            one.name,
            *(_scaled(one.name, value) for value in (one.old, one.new)),
            _rounded(one.change),
            one.worse,
        ]
        for one in differences
    ]


def _scaled(name: str, value: float | None) -> float | None:
    return value if value is None or name not in PERCENTILES else value / _MILLI


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def bars(buckets: Sequence[Bucket], width: int) -> list[str]:
    """Return lines of at most `width` columns: the upper end of each coarse bucket, its count and a bar."""
    found = coarse(buckets)
    ends = [f"< {_time(one.end)}" for one in found]
    counts = [f"{one.count:,}" for one in found]
    first, second = (max(map(len, texts), default=0) for texts in (ends, counts))
    room = max(width - first - second - 4, 1)
    highest = max((one.count for one in found), default=1)
    return [
        f"{end:>{first}}  {count:>{second}}  {_bar(one.count, highest, room)}".rstrip()
        for one, end, count in zip(found, ends, counts, strict=True)
    ]


def _bar(count: int, highest: int, room: int) -> str:
    return "█" * max(count * room // highest, 1) if count else ""


def _time(micros: int) -> str:
    for size, unit in ((1_000_000, "s"), (1000, "ms")):
        if micros >= size:
            return f"{micros // size} {unit}"
    return f"{micros} µs"
