"""The live view as lines of text: a headline, losses, the table, and the keys at the bottom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from rmqcli.render.text import many, one_line
from rmqcli.top.board import Loss, Row
from rmqcli.top.table import age, table_of
from rmqcli.top.view import HELP, View

_KEYS: Final = "q quit  ? keys  / filter  ← → sort  g groups  t topics  b brokers"
_SHORT_KEYS: Final = "q quit  ? keys  / filter"


class Line(NamedTuple):
    """`style` is one of rich: bold, dim, red, or none."""

    text: str
    style: str = ""


class Facts(NamedTuple):
    """The facts beside the rows: of which cluster, at what time, seconds between readings, and how many names
    there are in all.

    `trouble`: since how many seconds nothing could be read, and why. `read` is false before the first answer.
    """

    where: str
    at: str
    interval: float
    total: int = 0
    losses: Sequence[Loss] = ()
    trouble: tuple[float, str] | None = None
    read: bool = True


class Screenful(NamedTuple):
    """The lines of a screen, and how many rows they show."""

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
    shown = list(_fitting(table.blocks[view.first :], room))
    styles = ["dim" if row.lost_at is not None else "" for row in rows[view.first :]]
    body = [Line(text, style) for block, style in zip(shown, styles, strict=False) for text in block]
    body = body or [Line(_nothing(view, facts))][:room]
    padding = [Line("")] * (room - len(body))
    found = [*head, *body, *padding, _bottom(view, width)]
    return Screenful([_cut(line, width) for line in found[-height:]], max(len(shown), 1))


def _fitting(blocks: Sequence[list[str]], room: int) -> Iterator[list[str]]:
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
