"""The page about a store folder."""

from __future__ import annotations

from rmqcli.render.text import duration, many
from rmqcli.report import cells
from rmqcli.report.page import Cell, Heading, Page, Section, Table, Text, Tile, attention
from rmqcli.report.store.checks import findings_of, verified_section
from rmqcli.report.store.topics import StoreReading, cards_section, rate_section, topics_section
from rmqcli.report.times import histogram
from rmqcli.store.stats.overview import Overview


def store_page(found: StoreReading, made_ms: int, count: int) -> Page:
    """Return the page; tables have at most `count` rows."""
    shape = found.shape
    sections = [rate_section(shape), topics_section(shape, count)]
    if shape.topics:
        sections += [cards_section(shape), _record_sizes(found)]
    sections += [_queues(found.overview, count), _groups(found.overview, count), _folders(found.overview)]
    sections.append(verified_section(found, count))
    findings = attention(findings_of(found))
    return Page("Store folder", str(found.path), made_ms, _facts(found), _tiles(found), findings, sections)


def _facts(found: StoreReading) -> list[tuple[str, Cell]]:
    view = found.overview
    state = "stopped cleanly"
    if view.locked:
        state = "a broker is running on it"
    elif view.abort:
        state = "killed, or copied from a running broker"
    log = f"{view.log_begin:,} to {view.log_end:,}"
    return [("State", Cell(state)), ("Commit log", Cell(log, "commit-log offsets"))]


def _tiles(found: StoreReading) -> list[Tile]:
    view, shape, report = found.overview, found.shape, found.verified
    sound = Cell("not checked")
    if report is not None:
        sound = Cell("sound", kind="ok") if report.sound else Cell(f"{report.damaged:,} damaged", kind="fail")
    used = sum(one.used for one in view.folders)
    return [
        Tile("Verification", sound, "" if report is None else many(len(report.remarks), "note")),
        Tile("Topics", cells.number(len(shape.topics)), f"{len(view.queues):,} queues"),
        Tile("Messages", cells.number(shape.messages), _span(found)),
        Tile("Records", cells.size(shape.size), f"{cells.size(used).text} on disk"),
        Tile("Delayed", cells.number(view.delayed), "messages that wait"),
        Tile("Half messages", cells.number(view.half), "of open transactions"),
    ]


def _span(found: StoreReading) -> str:
    times = [one.statistics for one in found.shape.topics.values()]
    first = min((one.first_store_timestamp for one in times), default=0)
    last = max((one.last_store_timestamp for one in times), default=0)
    return f"stored within {duration((last - first) / 1000)}" if first else ""


def _record_sizes(found: StoreReading) -> Section:
    title = "Records by their size in the commit log"
    return Section("Record sizes", [histogram(title, found.shape.records)])


def _queues(view: Overview, count: int) -> Section:
    headings = [
        Heading("Topic"),
        *cells.numbers("Queue", "Messages", "Min offset", "Max offset"),
        Heading("First stored"),
        Heading("Last stored"),
    ]
    ordered = sorted(view.queues, key=lambda one: (-one.messages, one.topic, one.queue_id))
    shown, left_out = cells.first(ordered, count, "queues")
    largest = max((one.messages for one in view.queues), default=0)
    rows = [
        [
            cells.name(one.topic),
            cells.number(one.queue_id),
            cells.number(one.messages, share=cells.share_of(one.messages, largest)),
            Cell(f"{one.min_offset:,}", kind="number"),
            Cell(f"{one.max_offset:,}", kind="number"),
            cells.moment(one.first_stored),
            cells.moment(one.last_stored),
        ]
        for one in shown
    ]
    empty = [Text("No consume queues.")]
    return Section("Queues", [Table(headings, rows, left_out)] if rows else empty, "The longest first.")


def _groups(view: Overview, count: int) -> Section:
    ordered = sorted(view.groups, key=lambda one: (-one.lag, one.group, one.topic))
    shown, left_out = cells.first(ordered, count, "offsets of groups")
    largest = max((one.lag for one in view.groups), default=0)
    rows = [
        [
            cells.name(one.group),
            cells.name(one.topic),
            cells.number(one.queues),
            cells.number(one.lag, share=cells.share_of(one.lag, largest)),
        ]
        for one in shown
    ]
    headings = [Heading("Group"), Heading("Topic"), *cells.numbers("Queues", "Lag")]
    if not rows:
        return Section("Consumer groups", [Text("No group has committed offsets.")])
    return Section(
        "Consumer groups", [Table(headings, rows, left_out)], "By committed offsets, the longest lag first."
    )


def _folders(view: Overview) -> Section:
    headings = [Heading("Folder"), *cells.numbers("Files", "Length", "On disk")]
    rows = [
        [cells.name(one.name), cells.number(one.files), cells.size(one.size), cells.size(one.used)]
        for one in view.folders
    ]
    total, _, free = view.disk
    intro = f"The disk has {cells.size(total).text}, of which {cells.size(free).text} are free."
    return Section("Files", [Table(headings, rows)], intro)
