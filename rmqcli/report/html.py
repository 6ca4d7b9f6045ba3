"""The page as HTML: one file without scripts, which loads nothing from the network. Everything is escaped
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from rmqcli import __version__
from rmqcli.doctor.finding import Finding, Status
from rmqcli.report import charts
from rmqcli.report.cells import clean, moment
from rmqcli.report.page import Block, Card, Cell, Heading, Page, Plot, Section, Series, Table, Text, Tile

COLORS = 8
"""The number of series with a separate color, as in the style sheet."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SPARK_HEIGHT = 20
_WORDS = {Status.FAIL: "FAIL", Status.WARN: "warn"}


def html_of(page: Page) -> str:
    """Return the whole document."""
    return "\n".join(_document(page)) + "\n"


def _document(page: Page) -> Iterator[str]:
    title = f"{page.kind} {page.name}"
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{_text(title)} – {_text(moment(page.made_ms).text)} UTC</title>"
    yield f"<style>\n{files('rmqcli.report').joinpath('style.css').read_text('utf-8')}</style>\n</head>\n<body>"
    yield from _header(page)
    yield "<main>"
    yield from _summary(page)
    for section in page.sections:
        yield from _section(section)
    yield "</main>"
    yield f"<footer>Made by rmq {_text(__version__)}. All times are UTC; point at a number for its exact value.</footer>"
    yield "</body>\n</html>"


def _text(text: str) -> str:
    return escape(clean(text))


def _header(page: Page) -> Iterator[str]:
    yield f'<header>\n<p class="kind">{_text(page.kind)}</p>\n<h1>{_text(page.name)}</h1>'
    yield from _facts([("Made", moment(page.made_ms)), *page.facts])
    if len(page.sections) > 1:
        links = (f'<a href="#{_anchor(one.title)}">{_text(one.title)}</a>' for one in page.sections)
        yield f"<nav>{' '.join(links)}</nav>"
    yield "</header>"


def _facts(facts: Iterable[tuple[str, Cell]]) -> Iterator[str]:
    yield "<dl>"
    for name, cell in facts:
        yield f"<div><dt>{_text(name)}</dt><dd{_attributes(cell)}>{_content(cell)}</dd></div>"
    yield "</dl>"


def _anchor(title: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in title.lower())


def _summary(page: Page) -> Iterator[str]:
    yield '<section class="summary">\n<h2>Summary</h2>\n<ul class="tiles">'
    yield from map(_tile, page.tiles)
    yield "</ul>"
    if not page.findings:
        yield '<p class="quiet">Nothing that was checked needs attention.</p>'
    else:
        yield f"<h3>Needs attention ({len(page.findings):,})</h3>"
        yield from _findings(page.findings)
    yield "</section>"


def _tile(tile: Tile) -> str:
    note = f"<small>{_text(tile.note)}</small>" if tile.note else ""
    return f"<li{_attributes(tile.value)}><span>{_text(tile.label)}</span><b>{_text(tile.value.text)}</b>{note}</li>"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    yield '<ol class="findings">'
    for one in findings:
        what = f"<b>{_text(' '.join(filter(None, (one.check, one.target))))}:</b>"
        fix = f'<p class="fix">{_text(one.fix)}</p>' if one.fix else ""
        badge = f'<span class="badge {one.status.value}">{_WORDS.get(one.status, one.status.value)}</span>'
        yield f'<li class="{one.status.value}">{badge}<div><p>{what} {_text(one.text)}</p>{fix}</div></li>'
    yield "</ol>"


def _section(section: Section) -> Iterator[str]:
    yield f'<section id="{_anchor(section.title)}">\n<h2>{_text(section.title)}</h2>'
    if section.intro:
        yield f"<p>{_text(section.intro)}</p>"
    for block in section.blocks:
        yield from _block(block)
    yield "</section>"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Table():
            yield from _table(block)
        case Plot():
            yield from _plot(block)
        case Card():
            yield f'<article class="card">\n<h3 class="name">{_text(block.title)}</h3>'
            yield from _facts(block.facts)
            yield '<div class="plots">'
            for plot in block.plots:
                yield from _plot(plot)
            yield "</div>\n</article>"
        case Text():
            yield f'<p class="quiet">{_text(block.text)}</p>'


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"<h3>{_text(table.title)}</h3>"
    yield '<div class="scroll" tabindex="0">\n<table>\n<thead><tr>'
    for heading in table.headings:
        meaning = f' title="{_text(heading.meaning)}"' if heading.meaning else ""
        kind = ' class="number"' if heading.number else ""
        yield f'<th scope="col"{kind}{meaning}>{_text(heading.text)}</th>'
    yield "</tr></thead>\n<tbody>"
    for row in table.rows:
        cells = map(_table_cell, table.headings, row)
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody>\n</table>\n</div>"
    if table.left_out:
        yield f'<p class="left-out">{_text(table.left_out)}</p>'


def _table_cell(heading: Heading, cell: Cell) -> str:
    if heading.number and "number" not in cell.kind:
        cell = cell._replace(kind=f"{cell.kind} number")
    return f"<td{_attributes(cell)}>{_content(cell)}</td>"


def _attributes(cell: Cell) -> str:
    kind = f' class="{_text(cell.kind)}"' if cell.kind else ""
    exact = f' title="{_text(cell.exact)}"' if cell.exact else ""
    share = f' style="--share:{cell.share:.3f}"' if cell.share is not None else ""
    return kind + exact + share


def _content(cell: Cell) -> str:
    return (_spark(cell.counts) if cell.counts else "") + _text(cell.text)


def _spark(counts: Sequence[int]) -> str:
    """Return counts as a line of bars, one unit wide each."""
    highest = max(*counts, 1)
    bars = (
        # At least one unit high: a small count must not look like none.
        f"M{place} {_SPARK_HEIGHT}v-{max(round(count * _SPARK_HEIGHT / highest, 1), 1)}h.8v{_SPARK_HEIGHT}h-.8z"
        for place, count in enumerate(counts)
        if count
    )
    box = f"0 0 {len(counts)} {_SPARK_HEIGHT}"
    return f'<svg class="spark" viewBox="{box}" preserveAspectRatio="none" aria-hidden="true"><path d="{"".join(bars)}"/></svg>'


def _plot(plot: Plot) -> Iterator[str]:
    yield f"<figure{' class=narrow' if plot.narrow else ''}>\n<figcaption>{_text(plot.title)}</figcaption>"
    yield charts.svg(plot)
    if any(series.name for series in plot.series):
        yield '<ul class="legend">'
        yield from (_legend(number, series) for number, series in enumerate(plot.series))
        yield "</ul>"
    yield "</figure>"


def _legend(number: int, series: Series) -> str:
    total = f" <small>{_text(series.total)}</small>" if series.total else ""
    return f'<li><i class="color-{number}"></i><span>{_text(series.name)}{total}</span></li>'
