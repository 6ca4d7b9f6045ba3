"""Topics, lag, dead letters and clients of the page about a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from rmqcli.doctor.finding import Finding
from rmqcli.render.text import duration, many
from rmqcli.report import cells
from rmqcli.report.cluster.checks import Lag
from rmqcli.report.cluster.reading import MAX_GROUPS, ClusterReading
from rmqcli.report.cluster.topics import HOUR_MS, HOURS, TopicReading
from rmqcli.report.page import Block, Cell, Heading, Section, Table, Text
from rmqcli.report.times import by_share, over_time

_TOPIC_HEADINGS = (
    Heading("Topic"),
    Heading("Last day", "messages of each hour", number=False),
    Heading("Messages", "those of the last day", number=True),
    Heading("In/s", "messages stored per second, last minute", number=True),
    Heading("Readable", "messages between the ends of the queues", number=True),
    Heading("Queues", number=True),
    Heading("Last stored"),
)


def rate_section(found: ClusterReading) -> Section:
    counts = found.hours.counts
    totals = [sum(column) for column in zip(*counts.values(), strict=True)] if counts else []
    if not any(totals):
        return Section("Rate over time", [Text("No message was stored in the last day.")])
    active = sum(1 for one in found.topics if one.last_stored >= found.hours.begin)
    intro = "By the store time of the messages that can still be read."
    if active > len(counts):
        intro += f" The {len(counts):,} busiest of {active:,} topics are counted."
    title = f"Messages stored in each of the last {HOURS} hours"
    return Section(
        "Rate over time", [over_time(title, found.hours.begin, HOUR_MS, by_share(counts, totals))], intro
    )


def topics_section(found: ClusterReading, count: int) -> Section:
    """Return the topics, the busiest of the last day first, then those with the most messages."""

    def day(one: TopicReading) -> int:
        return sum(found.hours.counts.get(one.name, ())) or one.day or 0

    ordered = sorted(found.topics, key=lambda one: (-day(one), -one.messages, one.name))
    shown, left_out = cells.first(ordered, count, "topics", _rest(ordered[count:]))
    most = max((day(one) for one in found.topics), default=0)
    rows = [
        [
            cells.name(one.name),
            Cell("", counts=found.hours.counts.get(one.name, ())),
            cells.number(day(one), share=cells.share_of(day(one), most)),
            cells.rate(one.rate or 0.0),
            cells.number(one.messages),
            cells.number(len(one.queues)),
            cells.moment(one.last_stored),
        ]
        for one in shown
    ]
    intro = "The busiest first; retry, dead-letter and system topics are left out."
    return Section(
        "Topics", [Table(_TOPIC_HEADINGS, rows, left_out)] if rows else [Text("No topics.")], intro
    )


def _rest(left: Sequence[TopicReading]) -> str:
    return f"; the others have {sum(one.messages for one in left):,} messages"


def lag_section(found: ClusterReading, lags: Sequence[Lag], now_ms: int, count: int) -> Section:
    shown, left_out = cells.first(lags, count, "pairs of group and topic", _lag_of_rest(lags[count:]))
    most = max((one.lag or 0 for one in lags), default=0)
    rows = [
        [
            cells.name(one.group),
            cells.name(one.topic),
            _lag(one, most),
            cells.NOTHING if one.clients is None else _clients(one),
            cells.moment(one.oldest),
            Cell(duration(max(0, now_ms - one.oldest) / 1000), kind="number")
            if one.oldest
            else cells.NOTHING,
        ]
        for one in shown
    ]
    headings = [
        Heading("Group"),
        Heading("Topic"),
        Heading("Lag", "messages that are stored and not consumed", number=True),
        Heading("Clients", number=True),
        Heading("Last consumed", "store time of the last message consumed, where others wait behind it"),
        Heading("Age", "how old that message is", number=True),
    ]
    blocks: list[Block] = [Table(headings, rows, left_out)] if rows else [Text("No group has offsets.")]
    if found.skipped:
        blocks.append(Text(f"Clients of the {MAX_GROUPS:,} groups with the most lag were asked."))
    return Section("Lag", blocks, "The longest first.")


def _lag_of_rest(left: Sequence[Lag]) -> str:
    return f"; the others are {many(sum(one.lag or 0 for one in left), 'message')} behind"


def _lag(one: Lag, most: int) -> Cell:
    if one.unknown:
        return Cell("unknown", one.unknown, "number warn")
    return cells.number(one.lag, share=cells.share_of(one.lag or 0, most))


def _clients(one: Lag) -> Cell:
    return Cell(f"{one.clients:,}", kind="number warn" if one.lag and not one.clients else "number")


def dead_section(found: ClusterReading, count: int) -> Section:
    dead = sorted((one for one in found.dead if one.messages), key=lambda one: (-one.messages, one.group))
    if not dead:
        return Section("Dead letters", [Text("No group has dead letters.")])
    shown, left_out = cells.first(dead, count, "groups", f"; of {len(dead):,} with dead letters")
    rows = [
        [cells.name(one.group), cells.number(one.messages), cells.moment(one.last_stored)] for one in shown
    ]
    headings = [Heading("Group"), Heading("Dead letters", number=True), Heading("Last stored")]
    return Section("Dead letters", [Table(headings, rows, left_out)], "Messages whose retries are used up.")


def clients_section(found: ClusterReading, findings: Sequence[Finding], count: int) -> Section:
    """Return the groups whose clients differ in their subscriptions, leave queues without owners, or do not
    respond.
    """
    running = sum(one.connection is not None for one in found.members.values())
    if not findings:
        text = f"{many(running, 'group')} with running clients: all alike, and each queue has an owner."
        return Section("Subscriptions", [Text(text if running else "No group has running clients.")])
    shown, left_out = cells.first(sorted(findings, key=lambda one: one.status), count, "findings")
    rows = [
        [
            cells.name(one.target),
            Cell(one.check, kind=one.status.value),
            cells.text(one.text),
        ]
        for one in shown
    ]
    headings = [Heading("Group"), Heading("Check"), Heading("Found")]
    return Section(
        "Subscriptions", [Table(headings, rows, left_out)], f"{many(running, 'group')} with running clients."
    )
