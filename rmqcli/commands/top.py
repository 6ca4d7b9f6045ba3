"""`rmq top`: the load of groups, topics or brokers, and its trend."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import end_partly
from rmqcli.commands.common.watching import watched

if TYPE_CHECKING:
    from rmqcli.render import Column
    from rmqcli.top.board import Board
    from rmqcli.top.loads import Reading
    from rmqcli.top.view import View

app = single_command()

WhatArgument = Annotated[str, Argument(metavar="[WHAT]", help="groups, topics or brokers; default: groups.")]
OnceOption = Annotated[bool, Option("--once", help="Show one interval, then end.")]
IntervalOption = Annotated[
    float, Option("--interval", metavar="SECONDS", min=0.1, help="Time between two updates.")
]
FilterOption = Annotated[str, Option("--filter", metavar="TEXT", help="Only names that contain TEXT.")]
SortOption = Annotated[
    str, Option("--sort", metavar="COLUMN", help="Sort by name, in, out, lag, change or eta.")
]
RowsOption = Annotated[int | None, Option("--count", "-c", metavar="N", min=1, help="Show at most N lines.")]

_LIMIT_S = 2.0  # per request, unless --timeout or the profile sets another one


@command(
    app,
    "top",
    example="rmq top\nrmq top topics --filter orders --interval 5\nrmq top brokers --once\nrmq top --sort eta --json",
    rows=Rows.LIST,
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
    """Show the load of groups, topics or brokers every --interval, until q or Ctrl-C.

    Rates are messages per second. TREND is the lag over the last five minutes (for brokers, the incoming
    rate), CHANGE its change per second over the last minute, ETA the time until it is zero. On a terminal, ?
    shows the keys: filter, sort, scroll, groups, topics or brokers. A broker that does not respond does not
    end the command: its groups and topics remain, dimmed, with the time since its loss.

    Piped output: name, group, in, out, lag, change, seconds to zero, trend, lost, seconds since then, waiting
    timer messages of a topic or broker; JSON has one list per line. These figures cover the brokers that
    respond; with --once, the exit code is 3 if one does not.
    """
    from rmqcli.top.view import COLUMNS, KINDS, View

    if what not in KINDS:
        raise usage_error(f"{what}: expected groups, topics or brokers")
    if sort not in COLUMNS:
        raise usage_error(f"--sort {sort}: expected {', '.join(COLUMNS)}")
    view = View(what, sort, filter=filter_)
    if settings.terminal and not (settings.json or once or os.environ.get("TERM", "dumb") == "dumb"):
        _live(settings, view, interval, count)
    else:
        _repeated(settings, view, None if once else interval, interval, count)


def _live(settings: Settings, view: View, interval: float, count: int | None) -> None:
    from rmqcli.cli.running import run_until_terminated

    async def main() -> None:
        from rmqcli.client import Admin
        from rmqcli.top.live import Options, show_live

        options = Options(settings.endpoint.label, interval, count)
        async with Admin(**_client_options(settings)) as admin:
            await show_live(admin, view, options, color=settings.color)

    run_until_terminated(main)


def _repeated(settings: Settings, view: View, every: float | None, pause: float, count: int | None) -> None:
    from rmqcli.top.board import Board

    board = Board()
    if every is None:
        _read(settings, view.what, board)
        time.sleep(pause)
    watched(settings, every, partial(_show, settings, view, board, count))


def _show(settings: Settings, view: View, board: Board, count: int | None) -> None:
    from rmqcli.render import show_rows
    from rmqcli.top.board import chosen, plain

    reading = _read(settings, view.what, board)
    found = chosen(board.answered, view.sort, view.filter)[:count]
    rows = [plain(row, time.monotonic()) for row in found]
    show_rows(settings, _columns(view.what), rows, empty=f"no {view.what}", hidden=("lost",))
    end_partly(reading.lost)


def _read(settings: Settings, what: str, board: Board) -> Reading:
    from rmqcli.cli.running import run_async

    async def main() -> Reading:
        from rmqcli.client import Admin
        from rmqcli.top.loads import KINDS

        async with Admin(**_client_options(settings)) as admin:
            return await KINDS[what](admin)

    reading = run_async(main)
    board.update(reading, time.monotonic())
    return reading


def _client_options(settings: Settings) -> dict[str, Any]:
    """Return the client options, with a short default time limit, because a lost broker delays the others by
    it.
    """
    return {"timeout": _LIMIT_S} | settings.client_options


def _columns(what: str) -> Sequence[Column]:
    from rmqcli.render import Column
    from rmqcli.render.distribution import sparkline
    from rmqcli.render.text import duration, short_number
    from rmqcli.top.table import age, signed

    return [
        Column(what[:-1].upper(), "name", whole=True),
        Column("GROUP", "group", whole=True),
        Column("IN/S", "inTps", short_number, number=True, minor=True),
        Column("OUT/S", "outTps", short_number, number=True, minor=True),
        Column("RATE" if what == "brokers" else "LAG", "lag", short_number, number=True),
        Column("CHANGE/S", "change", signed, number=True, minor=True),
        Column(
            "ETA", "etaSeconds", lambda seconds: "" if seconds is None else duration(seconds), number=True
        ),
        Column("TREND", "trend", sparkline, whole=True, minor=True),
        Column("", "lost"),
        Column(
            "", "lostSeconds", lambda since: "" if since is None else f"lost {age(since)} ago", whole=True
        ),
        Column("TIMERS", "timers", short_number, number=True, minor=True),
    ]
