"""The findings about a store folder, and the section of its verification."""

from __future__ import annotations

import shlex

from rmqcli.doctor.brokers import DISK_FAIL, DISK_WARN
from rmqcli.doctor.finding import Finding, Status
from rmqcli.render.text import many
from rmqcli.report import cells
from rmqcli.report.page import Block, Cell, Heading, Section, Table, Text
from rmqcli.report.store.topics import StoreReading
from rmqcli.store.verify.store import StoreReport

_SHOWN = 20  # damaged places in the summary
_REPAIR = "rmq inspect salvage, or rmq inspect rebuild if only queues and index are damaged"


def findings_of(found: StoreReading) -> list[Finding]:
    """Return damage and a full disk; notes are in the section."""
    return [*_damage(found), *_disk(found)]


def _damage(found: StoreReading) -> list[Finding]:
    report = found.verified
    if report is None:
        if not found.shape.skipped:
            return []
        text = f"records are unreadable in {many(found.shape.skipped, 'place')}, and not counted here"
        return [
            Finding(Status.FAIL, "commit log", "", text, f"rmq inspect verify {shlex.quote(str(found.path))}")
        ]
    shown = [
        Finding(Status.FAIL, "damage", f"{_place(found, one.path)} byte {one.position}", one.problem)
        for one in report.findings[:_SHOWN]
    ]
    if report.damaged > len(shown):
        text = f"{report.damaged - len(shown):,} more damaged places"
        shown.append(
            Finding(Status.FAIL, "damage", "", text, f"rmq inspect verify {shlex.quote(str(found.path))}")
        )
    return [*shown[:-1], shown[-1]._replace(fix=_REPAIR)] if shown else []


def _place(found: StoreReading, path: object) -> str:
    return str(path).removeprefix(f"{found.path}/")


def _disk(found: StoreReading) -> list[Finding]:
    total, _, free = found.overview.disk
    ratio = 1 - free / total if total else 0.0
    if ratio < DISK_WARN:
        return []
    status = Status.FAIL if ratio >= DISK_FAIL else Status.WARN
    text = f"{ratio:.0%} of the disk of this folder is used, {cells.size(free).text} are free"
    return [
        Finding(status, "disk", "", text, "a broker deletes early from 75 %, and refuses messages from 90 %")
    ]


def verified_section(found: StoreReading, count: int) -> Section:
    report = found.verified
    if report is None:
        return Section("Verification", [Text(f"Not done: rmq inspect verify {shlex.quote(str(found.path))}")])
    blocks: list[Block] = [_parts(report)]
    if report.findings:
        blocks.append(_places(found, report, count))
    if report.remarks:
        notes, left_out = cells.first(report.remarks, count, "notes")
        rows = [[cells.text(note)] for note in notes]
        blocks.append(Table([Heading("Note")], rows, left_out, "Worth knowing"))
    intro = "Records, consume queues, index, checkpoint and tables, each against the others: "
    verdict = "sound." if report.sound else f"damaged in {many(report.damaged, 'place')}."
    return Section("Verification", blocks, intro + verdict)


def _parts(report: StoreReport) -> Table:
    headings = [Heading("Part"), *cells.numbers("Files", "Items", "Bytes", "Damaged places")]
    rows = [
        [
            Cell(name),
            cells.number(part.files),
            cells.number(part.items),
            cells.size(part.size) if part.size else cells.NOTHING,
            Cell(f"{part.damaged:,}", kind="number fail" if part.damaged else "number"),
        ]
        for name, part in report.parts.items()
    ]
    return Table(headings, rows)


def _places(found: StoreReading, report: StoreReport, count: int) -> Table:
    shown, _ = cells.first(report.findings, count, "places")
    rows = [
        [
            cells.name(_place(found, one.path)),
            cells.number(one.position),
            cells.text(one.problem),
            cells.number(one.length),
        ]
        for one in shown
    ]
    rest = report.damaged - len(rows)
    left_out = f"The first {len(rows):,} of {report.damaged:,} places are shown." if rest else ""
    headings = [
        Heading("File"),
        Heading("Byte", number=True),
        Heading("Problem"),
        Heading("Unreadable bytes", "– if unknown", number=True),
    ]
    return Table(headings, rows, left_out, "Damage")
