"""The table of the live view as blocks of text, and the whole view as lines around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

from rmqcli.render.distribution import sparkline
from rmqcli.render.text import duration, many, one_line, short_number
from rmqcli.top.board import Loss, Row
from rmqcli.top.view import HELP, View

# Rows as blocks of text of a given width: one line each, or several for names that leave no room.
#
# Names are never cut. Less important columns are left out first.

_GAP: Final = 2
_TREND_LEAST: Final = 6  # characters
_DROPPED: Final = ("trend", "timers", "in", "out", "eta", "change")  # in this order


class _Column(NamedTuple):
    """`key` is the name to sort by. Names align to the left."""

    key: str
    title: str
    texts: list[str]
    is_name: bool = False

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.title, *self.texts)))


class Table(NamedTuple):
    """The head, and a block of lines for each row."""

    head: str
    blocks: list[list[str]]


def age(seconds: float) -> str:
    """Return a duration such as `12 s`, always in whole seconds."""
    return duration(max(round(seconds), 0))


def table_of(view: View, rows: Sequence[Row], now: float, width: int) -> Table:
    """Return the table that fits; if names need the whole width, it has no head, and a title next to each
    figure.
    """
    columns = [one for one in _columns(view, rows, now) if any(one.texts)]
    fitting = _fitting(columns, view.sort, width)
    if not columns or fitting is None:
        return Table("", list(_records(columns, len(rows), width)))
    cells = [[_aligned(one, one.title), *(_aligned(one, text) for text in one.texts)] for one in fitting]
    head, *body = ((" " * _GAP).join(texts).rstrip() for texts in zip(*cells, strict=True))
    return Table(head, [[line] for line in body])


def _columns(view: View, rows: Sequence[Row], now: float) -> list[_Column]:
    mark = "↑" if view.backwards != (view.sort == "name") else "↓"

    def title(key: str, text: str) -> str:
        return f"{text}{mark}" if key == view.sort else text

    figure = "RATE" if view.what == "brokers" else "LAG"
    return [
        _Column("name", title("name", view.what[:-1].upper()), [one_line(row.name) for row in rows], True),
        _Column("group", "GROUP", [one_line(row.group or "") for row in rows], True),
        _Column("in", title("in", "IN/S"), [short_number(row.rate_in) for row in rows]),
        _Column("out", title("out", "OUT/S"), [short_number(row.rate_out) for row in rows]),
        _Column("lag", title("lag", figure), [short_number(row.figure) for row in rows]),
        _Column("change", title("change", "CHANGE/S"), [signed(row.trend.change) for row in rows]),
        _Column("eta", title("eta", "ETA"), [_eta(row) for row in rows]),
        _Column("timers", "TIMERS", [short_number(row.timers) if row.timers else "" for row in rows]),
        _Column("trend", "TREND", [sparkline(row.trend.values) for row in rows], True),
        _Column("lost", "", [_lost(row, now) for row in rows], True),
    ]


def signed(change: float | None) -> str:
    """Return `+1.5k`, `-3` or `0`; empty for None."""
    if not change:
        return short_number(change)
    return f"{'-' if change < 0 else '+'}{short_number(abs(change))}"


def _eta(row: Row) -> str:
    return "" if row.trend.eta is None else duration(row.trend.eta)


def _lost(row: Row, now: float) -> str:
    return "" if row.lost_at is None else f"lost {age(now - row.lost_at)} ago"


def _fitting(columns: Sequence[_Column], sort: str, width: int) -> list[_Column] | None:
    """Return the columns that fit, with the trend shortened as needed; None if not even the main ones fit."""
    dropped = [key for key in _DROPPED if key != sort]
    for count in range(len(dropped) + 1):
        kept = [one for one in columns if one.key not in dropped[:count]]
        left = width - sum(one.width + _GAP for one in kept if one.key != "trend") + _GAP
        if all(one.key != "trend" for one in kept):
            if left >= 0:
                return kept
        elif left - _GAP >= _TREND_LEAST:
            return [_shortened(one, left - _GAP) if one.key == "trend" else one for one in kept]
    return None


def _shortened(trend: _Column, width: int) -> _Column:
    return trend._replace(texts=[text[-width:] for text in trend.texts])


def _aligned(column: _Column, text: str) -> str:
    blanks = " " * (column.width - cell_len(text))
    return f"{text}{blanks}" if column.is_name else f"{blanks}{text}"


def _records(columns: Sequence[_Column], count: int, width: int) -> Iterator[list[str]]:
    for place in range(count):
        names = [one.texts[place] for one in columns if one.key in ("name", "group") and one.texts[place]]
        figures = [
            f"{one.title} {one.texts[place]}".strip()
            for one in columns
            if one.key not in ("name", "group", "trend") and one.texts[place]
        ]
        wrapped = [part for name in names for part in chop_cells(name, width)]
        yield [*wrapped, *_packed(figures, width)]


def _packed(figures: Sequence[str], width: int) -> Iterator[str]:
    """Yield indented figures in as few lines as possible."""
    line = ""
    for figure in figures:
        if line and cell_len(line) + cell_len(figure) + _GAP > width:
            yield line
            line = ""
        line += " " * _GAP + figure
    yield line


_KEYS: Final = "q quit  ? keys  / filter  ← → sort  g groups  t topics  b brokers"
_SHORT_KEYS: Final = "q quit  ? keys  / filter"


class Line(NamedTuple):
    """`style` is one of rich: bold, dim, red, or none."""

    text: str
    style: str = ""


class Facts(NamedTuple):
    """The facts besides the rows: the cluster, the time, the seconds between readings, and the total number
    of names.

    `trouble`: the seconds since which nothing could be read, and the reason. `read` is False before the first
    reading.
    """

    where: str
    at: str
    interval: float
    total: int = 0
    losses: Sequence[Loss] = ()
    trouble: tuple[float, str] | None = None
    read: bool = True


class Screenful(NamedTuple):
    """The lines of a screen, and the number of rows that they show."""

    lines: list[Line]
    rows: int


def screenful(
    view: View, rows: Sequence[Row], facts: Facts, now: float, width: int, height: int
) -> Screenful:
    """Return at most `height` lines. `rows` are filtered and sorted."""
    if view.help:
        return Screenful([_cut(line, width) for line in _help(height)], 1)
    head = _head(view, rows, facts, now)
    table = table_of(view, rows, now, width)
    head += [Line(table.head, "bold")] if table.head and rows else []
    room = max(height - len(head) - 1, 0)
    shown = list(_blocks_that_fit(table.blocks[view.first :], room))
    styles = ["dim" if row.lost_at is not None else "" for row in rows[view.first :]]
    body = [Line(text, style) for block, style in zip(shown, styles, strict=False) for text in block]
    body = body or [Line(_nothing(view, facts))][:room]
    padding = [Line("")] * (room - len(body))
    found = [*head, *body, *padding, _bottom(view, width)]
    return Screenful([_cut(line, width) for line in found[-height:]], max(len(shown), 1))


def _blocks_that_fit(blocks: Sequence[list[str]], room: int) -> Iterator[list[str]]:
    for block in blocks:
        room -= len(block)
        if room < 0:
            return
        yield block


def _cut(line: Line, width: int) -> Line:
    text = one_line(line.text)
    return Line(text if cell_len(text) <= width else f"{set_cell_size(text, max(width - 1, 0))}…", line.style)


def _head(view: View, rows: Sequence[Row], facts: Facts, now: float) -> list[Line]:
    every, shown = many(facts.total, view.what[:-1]), len({row.name for row in rows})
    count = every if shown == facts.total else f"{shown} of {every}"
    order = f"by {view.sort}{', reversed' if view.backwards else ''}"
    matching = f" with {view.text}" if view.text else ""
    title = f"{count}{matching}, {order}  {facts.at}, every {facts.interval:g} s  {facts.where}"
    head = [Line(title, "bold")]
    if facts.trouble is not None:
        head.append(Line(f"no answer for {age(facts.trouble[0])}: {facts.trouble[1]}", "red"))
    return head + [
        Line(f"{one.broker} lost {age(now - one.at)} ago: {one.why}", "red") for one in facts.losses
    ]


def _nothing(view: View, facts: Facts) -> str:
    if not facts.read:
        return "reading …"
    return f"no {view.what} with {view.text}" if view.text else f"no {view.what}"


def _bottom(view: View, width: int) -> Line:
    if view.typed is not None:
        return Line(f"/{view.typed}▏")
    return Line(_KEYS if len(_KEYS) <= width else _SHORT_KEYS, "dim")


def _help(height: int) -> list[Line]:
    wide = max(len(keys) for keys, _ in HELP)
    found = [Line("Keys", "bold"), *(Line(f"{keys:<{wide}}  {text}") for keys, text in HELP)]
    return [*found, Line(""), Line("any key closes this", "dim")][:height]
