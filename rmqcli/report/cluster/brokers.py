"""Brokers and name servers of the page about a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmqcli.client import ClientError
from rmqcli.codec.bodies.route import ClusterInfo
from rmqcli.doctor.brokers import DISK_FAIL, DISK_WARN, disk_ratio
from rmqcli.doctor.survey import Reading, Seat
from rmqcli.plans.properties import Compared
from rmqcli.report import cells
from rmqcli.report.cluster.reading import ClusterReading, label_of
from rmqcli.report.page import Block, Cell, Heading, Section, Table, Text

_HEADINGS = (
    Heading("Broker", "NAME, or NAME:ID for a slave"),
    Heading("Address"),
    Heading("Version"),
    Heading("In/s", "messages stored per second, last 10 s", number=True),
    Heading("Out/s", "messages delivered per second, last 10 s", number=True),
    Heading("Stored today", number=True),
    Heading("Commit log", number=True),
    Heading("Disk", "the used part of the fullest disk", number=True),
    Heading("Up since"),
)


def brokers_section(found: ClusterReading, count: int) -> Section:
    """Return the table of brokers: first those that do not respond, then by name."""
    seats = sorted(
        found.survey.seats, key=lambda seat: isinstance(found.survey.readings[seat.address], Reading)
    )
    shown, left_out = cells.first(seats, count, "brokers")
    table = Table(_HEADINGS, [_row(found, seat) for seat in shown], left_out)
    return Section("Brokers", [table, _name_servers(found)])


def _row(found: ClusterReading, seat: Seat) -> list[Cell]:
    start = [cells.name(label_of(seat)), cells.code(seat.address)]
    answer = found.survey.readings[seat.address]
    if not isinstance(answer, Reading):
        return [*start, Cell("no answer", str(answer), "fail"), *[cells.NOTHING] * (len(_HEADINGS) - 3)]
    table = answer.table
    ratio = disk_ratio(table)
    return [
        *start,
        Cell(table.get("brokerVersionDesc", "–").removeprefix("V").replace("_", ".")),
        _rate(table, "putTps"),
        _rate(table, "getTransferredTps", "getTransferedTps"),  # of 5.x, of 4.x
        cells.number(_difference(table, "msgPutTotalTodayNow", "msgPutTotalTodayMorning")),
        cells.size(_difference(table, "commitLogMaxOffset", "commitLogMinOffset")),
        cells.percent(ratio, _level(ratio)),
        cells.moment(_number(table.get("bootTimestamp"))),
    ]


def _level(ratio: float | None) -> str:
    if ratio is None or ratio < DISK_WARN:
        return "number"
    return "number fail" if ratio >= DISK_FAIL else "number warn"


def _rate(table: Mapping[str, str], *names: str) -> Cell:
    """Return the first of three rates; the others are over 1 and 10 minutes."""
    text = next((table[name] for name in names if name in table), "")
    rates = [float(one) for one in text.split() if one.replace(".", "", 1).isdigit()]
    if not rates:
        return cells.NOTHING
    spans = zip(("10 s", "1 min", "10 min"), rates, strict=False)
    return cells.rate(rates[0])._replace(exact=", ".join(f"{span}: {rate:,.2f}" for span, rate in spans))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _difference(table: Mapping[str, str], high: str, low: str) -> int | None:
    """Return the difference of two figures, None if the broker lacks one; a missing low end is 0 in 4.9."""
    end, begin = _number(table.get(high)), _number(table.get(low, "0"))
    return None if end is None or begin is None else max(0, end - begin)


def _name_servers(found: ClusterReading) -> Table:
    rows = []
    for server, view in found.survey.views.items():
        if isinstance(view, ClusterInfo):
            rows.append([cells.code(server), Cell("answers"), cells.number(len(view.broker_addr_table))])
        else:
            rows.append([cells.code(server), Cell("no answer", str(view), "fail"), cells.NOTHING])
    headings = [Heading("Address"), Heading("State"), Heading("Brokers known", number=True)]
    return Table(headings, rows, title="Name servers")


def drift_section(found: ClusterReading, drift: Sequence[Compared], count: int) -> Section:
    """Return a line for each value of a property, the most common one first."""
    title, intro = (
        "Configuration drift",
        "Names, addresses and folders, which every broker has of its own, are left out.",
    )
    if len(found.configs) < 2:
        return Section(title, [Text(f"{len(found.configs)} broker answered: there is nothing to compare.")])
    if not drift:
        return Section(title, [Text(f"{len(found.configs)} brokers have the same configuration.")], intro)
    shown, left_out = cells.first(drift, count, "properties")
    rows = [row for one in shown for row in _values(one)]
    headings = [Heading("Property"), Heading("Value"), Heading("Brokers")]
    blocks: list[Block] = [Table(headings, rows, left_out)]
    return Section(title, blocks, intro)


def _values(one: Compared) -> list[list[Cell]]:
    brokers: dict[str | None, list[str]] = {}
    for label, value in one.values.items():
        brokers.setdefault(value, []).append(label)
    ordered = sorted(brokers.items(), key=lambda item: (-len(item[1]), item[1]))
    return [
        [
            cells.name("" if number else one.name),
            Cell("none", kind="none") if value is None else cells.name(value),
            cells.text(", ".join(labels)),
        ]
        for number, (value, labels) in enumerate(ordered)
    ]


def unanswered_section(failures: Mapping[str, ClientError], count: int) -> list[Section]:
    """Return a section if a server did not respond."""
    if not failures:
        return []
    shown, left_out = cells.first(sorted(failures.items()), count, "failures")
    rows = [[cells.name(name), cells.text(str(error))] for name, error in shown]
    intro = "This page lacks what they would have said."
    return [Section("Without an answer", [Table([Heading("Who"), Heading("Error")], rows, left_out)], intro)]
