"""`rmq top`: what carries most, and where it goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watched

if TYPE_CHECKING:
    from rmqcli.flows.loads import Carried
    from rmqcli.flows.trends import Trend, Trends
    from rmqcli.render import Column

app = single_command()

WhatArgument = Annotated[str, Argument(metavar="[WHAT]", help="groups, topics or brokers; default: groups.")]
OnceOption = Annotated[bool, Option("--once", help="Show one interval and end.")]
IntervalOption = Annotated[float, Option("--interval", metavar="SECONDS", min=0.1, help="Time between two.")]
FilterOption = Annotated[str, Option("--filter", metavar="TEXT", help="Only names that contain TEXT.")]
SortOption = Annotated[str, Option("--sort", metavar="COLUMN", help="name, in, out, lag, change or eta.")]
RowsOption = Annotated[int | None, Option("--count", "-c", metavar="N", min=1, help="Show at most N lines.")]

_PLACES = {"name": 0, "in": 2, "out": 3, "lag": 4, "change": 5, "eta": 6}
_WHAT = frozenset(("groups", "topics", "brokers"))


@command(
    app,
    "top",
    example="rmq top\nrmq top topics --filter orders --interval 5\nrmq top brokers --once\nrmq top --sort eta --json",
)
def top(
    settings: Settings,
    what: WhatArgument = "groups",
    once: OnceOption = False,
    interval: IntervalOption = 2.0,
    filter_: FilterOption = "",
    sort: SortOption = "lag",
    count: RowsOption = None,
) -> None:
    """Show what groups, topics or brokers carry, again every --interval, until Ctrl-C.

    Rates are messages per second. TREND is the lag over the last five minutes (of brokers, the rate in),
    CHANGE what it gains per second over the last minute, ETA the time until it is zero. Piped output: name,
    group, in, out, lag, change, seconds to zero, trend, lost; JSON has one list a line. A broker that does
    not respond is reported (with --once, exit code 3) and does not end the command.
    """
    from rmqcli.flows.trends import Trends

    if what not in _WHAT:
        raise usage_error(f"{what}: expected groups, topics or brokers")
    if sort not in _PLACES:
        raise usage_error(f"--sort {sort}: expected {', '.join(_PLACES)}")
    trends = Trends()
    if once:
        _read(settings, what, trends, {})
        time.sleep(interval)
    show = partial(_show, settings, what, trends, filter_, _PLACES[sort], count)
    watched(settings, None if once else interval, show)


def _show(settings: Settings, what: str, trends: Trends, text: str, place: int, count: int | None) -> None:
    from rmqcli.render import show_rows

    failures: Failures = {}
    found = [row for row in _read(settings, what, trends, failures) if text in row[0]]
    columns = _columns(what)
    show_rows(settings, columns, _sorted(found, place)[:count], empty=f"no {what}")
    end_partly(failures)


def _read(settings: Settings, what: str, trends: Trends, failures: Failures) -> list[list[Any]]:
    from rmqcli.flows.loads import KINDS

    found = with_admin(settings, lambda admin: KINDS[what](admin, failures))
    now = time.monotonic()
    return [_row(one, trends.note((one.name, one.group), one.figure, now)) for one in found]


def _row(one: Carried, trend: Trend) -> list[Any]:
    change = None if trend.change is None else round(trend.change, 2)
    eta = None if trend.eta is None else round(trend.eta, 1)
    return [*one[:5], change, eta, list(trend.values), one.lost]


def _sorted(rows: list[list[Any]], place: int) -> list[list[Any]]:
    """Return the largest first, names in order; what is unknown comes last."""
    if not place:
        return sorted(rows, key=lambda row: (row[0], row[1] or ""))
    return sorted(rows, key=lambda row: (row[place] is None, -(row[place] or 0), row[0], row[1] or ""))


def _columns(what: str) -> Sequence[Column]:
    from rmqcli.render import Column
    from rmqcli.render.distribution import sparkline
    from rmqcli.render.text import duration, short_number

    def eta(seconds: float | None) -> str:
        return "" if seconds is None else duration(seconds)

    return [
        Column(what[:-1].upper(), "name", whole=True),
        Column("GROUP", "group", whole=True),
        Column("IN/S", "inTps", short_number, number=True),
        Column("OUT/S", "outTps", short_number, number=True),
        Column("RATE" if what == "brokers" else "LAG", "lag", short_number, number=True),
        Column("CHANGE/S", "change", _signed, number=True),
        Column("ETA", "etaSeconds", eta, number=True),
        Column("TREND", "trend", sparkline, whole=True, minor=True),
        Column("", "lost", lambda lost: "lost" if lost else ""),
    ]


def _signed(change: float | None) -> str:
    from rmqcli.render.text import short_number

    if not change:
        return short_number(change)
    return f"{'-' if change < 0 else '+'}{short_number(abs(change))}"
