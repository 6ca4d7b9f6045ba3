"""The view of the whole cluster, and that of all dead letters: from the poll."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from rmqcli.client import ClientError
from rmqcli.console.shared import TooSlow
from rmqcli.console.view import (
    MAX_ROWS,
    Console,
    Field,
    Form,
    View,
    address,
    commands,
    group_cell,
    topic_cell,
)
from rmqcli.doctor.checks import judge
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.survey import examine
from rmqcli.render.text import duration, many
from rmqcli.report import cells
from rmqcli.report.cluster.checks import unattended
from rmqcli.report.page import Block, Cell, Heading, Section, Table, Text, Tile, attention
from rmqcli.top.board import Board, Row, chosen

DOCTOR_SECONDS = 30.0
"""The age up to which findings of the doctor are reused, because it queries every server."""
MAX_FINDINGS = 10  # about groups without a client
TREND = [Heading("Trend", "over the last five minutes"), *cells.numbers("Change/s", "To zero")]


async def overview(console: Console, text: str = "") -> View:
    """Return the view; tables have the names that contain a string."""
    live = console.live
    await live.poll()
    found: list[Finding] = []
    if live.outage is None:
        with suppress(ClientError, TooSlow):
            found = attention(
                judge(
                    await console.readings.get(
                        "doctor", lambda: examine(console.admin), seconds=DOCTOR_SECONDS
                    )
                )
            )
    form = Form("/", "Names that contain", "Filter", [Field("filter", "Names that contain", text, "orders")])
    sections = [_brokers(live.boards["brokers"], text), *load_sections(console, text)]
    return View(
        "Cluster",
        console.where,
        form=form,
        tiles=_tiles(console),
        findings=[*_lost(console), *found, *_unattended(live.boards["groups"])],
        sections=sections,
    )


def load_sections(console: Console, text: str) -> list[Section]:
    boards = console.live.boards
    return [_groups(boards["groups"], text), _topics(boards["topics"], text), letters_section(console, text)]


def _tiles(console: Console) -> list[Tile]:
    boards = console.live.boards
    brokers, topics = boards["brokers"].rows, per_topic(boards["topics"])
    groups = boards["groups"].rows
    lost = sum(one.lost_at is not None for one in brokers)
    dead = sum(one.messages for one in console.live.letters)
    count = Cell(f"{len(brokers) - lost:,} of {len(brokers):,}", kind="fail" if lost or not brokers else "ok")
    return [
        Tile("Brokers", count, "answer"),
        Tile("In/s", cells.rate(sum(one.rate_in or 0 for one in topics)), "last minute"),
        Tile("Out/s", cells.rate(sum(one.rate_out or 0 for one in groups)), "last minute"),
        Tile("Lag", cells.number(sum(one.figure or 0 for one in groups)), f"of {len(groups):,} groups"),
        Tile("Topics", cells.number(len(topics)), "of applications"),
        Tile("Dead letters", cells.number(dead)._replace(kind="warn" if dead else "number"), "messages"),
    ]


def _lost(console: Console) -> list[Finding]:
    boards = console.live.boards.values()
    losses = {loss.broker: loss.why for board in boards for loss in board.losses}
    text = "its figures are those from before: "
    return [Finding(Status.FAIL, "broker", name, text + why) for name, why in sorted(losses.items())]


def _is_unattended(row: Row) -> bool:
    return bool(row.figure) and row.clients == 0


def _unattended(board: Board) -> list[Finding]:
    rows = [row for row in chosen(board.rows, "lag") if _is_unattended(row)]
    found = [unattended(row.name, row.figure or 0) for row in rows[:MAX_FINDINGS]]
    more = len(rows) - len(found)
    if more:
        text = (
            f"{many(more, 'other group')} with messages to consume {'has' if more == 1 else 'have'} no client"
        )
        found.append(Finding(Status.WARN, "lag", "", text))
    return found


def _brokers(board: Board, text: str) -> Section:
    rows = chosen(board.rows, "name", text)
    shown, left_out = cells.first(rows, MAX_ROWS, "brokers")
    headings = [
        Heading("Broker", "NAME, or NAME:ID for a slave"),
        *cells.numbers("In/s", "Out/s", "Timers"),
        *TREND[:2],
    ]
    table = [
        [
            _named(cells.name(row.name), row),
            cells.rate(row.rate_in),
            cells.rate(row.rate_out),
            cells.number(row.timers),
            *trend(row)[:2],
        ]
        for row in shown
    ]
    return _section("Brokers", headings, table, left_out, "Messages per second, of the last 10 s.")


def _groups(board: Board, text: str) -> Section:
    rows = chosen(board.rows, "lag", text)
    shown, left_out = cells.first(rows, MAX_ROWS, "groups", "; filter by name to see others")
    most = max((row.figure or 0 for row in rows), default=0)
    headings = [Heading("Group"), *cells.numbers("Lag", "Clients", "Out/s"), *TREND]
    table = [
        [
            _named(group_cell(row.name), row),
            cells.number(row.figure, share=cells.share_of(row.figure or 0, most)),
            cells.number(row.clients)._replace(kind="number warn" if _is_unattended(row) else "number"),
            cells.rate(row.rate_out),
            *trend(row),
        ]
        for row in shown
    ]
    return _section("Groups", headings, table, left_out, "The most messages to consume first.")


def per_topic(board: Board) -> list[Row]:
    """Return one row for each topic, with the sums of its groups."""
    found: dict[str, Row] = {}
    for row in board.rows:
        other = found.get(row.name)
        if other is not None:
            row = other._replace(
                rate_out=_sum(other.rate_out, row.rate_out), figure=_sum(other.figure, row.figure)
            )
        found[row.name] = row
    return sorted(found.values(), key=lambda row: (-(row.rate_in or 0), -(row.figure or 0), row.name))


def _sum(one: float | None, other: float | None) -> int:
    return (one or 0) + (other or 0)  # type: ignore[return-value]


def _topics(board: Board, text: str) -> Section:
    rows = [row for row in per_topic(board) if text in row.name]
    shown, left_out = cells.first(rows, MAX_ROWS, "topics", "; filter by name to see others")
    groups: dict[str, int] = {}
    for row in board.rows:
        groups[row.name] = groups.get(row.name, 0) + (row.group is not None)
    headings = [Heading("Topic"), *cells.numbers("In/s", "Out/s", "Groups", "Lag", "Timers")]
    table = [
        [
            _named(topic_cell(row.name), row),
            cells.rate(row.rate_in),
            cells.rate(row.rate_out),
            cells.number(groups[row.name]),
            cells.number(row.figure),
            cells.number(row.timers),
        ]
        for row in shown
    ]
    return _section("Topics", headings, table, left_out, "The busiest of the last minute first.")


def letters_section(console: Console, text: str = "") -> Section:
    found = sorted(
        (one for one in console.live.letters if text in one.group), key=lambda one: (-one.messages, one.group)
    )
    shown, left_out = cells.first(found, MAX_ROWS, "groups")
    rows = [
        [
            cells.name(one.group)._replace(href=address("/dead-letters", group=one.group)),
            cells.number(one.messages),
            cells.moment(one.last_stored),
        ]
        for one in shown
    ]
    headings = [Heading("Group"), Heading("Dead letters", number=True), Heading("Last stored")]
    return _section("Dead letters", headings, rows, left_out, "Messages whose retries are used up.")


async def all_letters(console: Console) -> View:
    await console.live.poll()
    return View(
        "Dead letters",
        "of all groups",
        sections=[letters_section(console), commands(console.command("List them", "dlq list"))],
    )


def trend(row: Row) -> list[Cell]:
    """Return the line of values, the change per second, and the time to zero."""
    found = row.trend
    if row.lost_at is not None:
        return [cells.NOTHING, cells.NOTHING, cells.NOTHING]
    change = cells.NOTHING if found.change is None else Cell(f"{found.change:+,.1f}", kind="number")
    zero = cells.NOTHING if not found.eta else Cell(duration(found.eta), kind="number")
    return [Cell("", ", ".join(map(str, found.values)), counts=found.values), change, zero]


def _named(cell: Cell, row: Row) -> Cell:
    if row.lost_at is None:
        return cell
    return cell._replace(
        text=f"{cell.text} (lost)", exact="a broker that contributes does not answer", kind="name fail"
    )


def _section(
    title: str, headings: Sequence[Heading], rows: Sequence[Sequence[Cell]], left_out: str, intro: str
) -> Section:
    blocks: list[Block] = [Table(headings, rows, left_out)] if rows else [Text("None.")]
    return Section(title, blocks, intro)
