"""The page as HTML: one file without scripts, which loads nothing from the network. Everything is escaped
here. The console shows the same parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from rmqcli import __version__
from rmqcli.doctor.finding import Finding, Status
from rmqcli.render.text import printable
from rmqcli.report.cells import clean, moment
from rmqcli.report.page import (
    Block,
    Card,
    Cell,
    Code,
    Heading,
    Page,
    Plot,
    Section,
    Series,
    Table,
    Text,
    Tile,
)

COLORS = 8
"""The number of series with a separate color, as in the style sheet."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SPARK_HEIGHT = 20
_WORDS = {Status.FAIL: "FAIL", Status.WARN: "warn"}


def html_of(page: Page) -> str:
    """Return the whole document."""
    return "\n".join(_document(page)) + "\n"


def _document(page: Page) -> Iterator[str]:
    yield from head_of(
        f"{page.kind} {page.name} – {moment(page.made_ms).text} UTC",
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<style>\n{style()}</style>",
    )
    yield "<body>"
    yield from _header(page)
    yield "<main>"
    yield from summary_of(page.tiles, page.findings)
    for section in page.sections:
        yield from section_of(section)
    yield "</main>"
    yield f"<footer>Made by rmq {escaped(__version__)}. All times are UTC; point at a number for its exact value.</footer>"
    yield "</body>\n</html>"


def head_of(title: str, *more: str) -> Iterator[str]:
    """Yield the beginning of a document, before its body; `more` is markup of the head."""
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{escaped(title)}</title>"
    yield from more
    yield "</head>"


def escaped(text: str) -> str:
    """Return a text of one line for markup and attributes in quotes."""
    return escape(clean(text))


def _header(page: Page) -> Iterator[str]:
    yield f'<header>\n<p class="kind">{escaped(page.kind)}</p>\n<h1>{escaped(page.name)}</h1>'
    yield from facts_of([("Made", moment(page.made_ms)), *page.facts])
    if len(page.sections) > 1:
        links = (f'<a href="#{_anchor(one.title)}">{escaped(one.title)}</a>' for one in page.sections)
        yield f"<nav>{' '.join(links)}</nav>"
    yield "</header>"


def facts_of(facts: Iterable[tuple[str, Cell]]) -> Iterator[str]:
    yield "<dl>"
    for name, cell in facts:
        yield f"<div><dt>{escaped(name)}</dt><dd{_attributes(cell)}>{_content(cell)}</dd></div>"
    yield "</dl>"


def _anchor(title: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in title.lower())


def style() -> str:
    """Return the style sheet."""
    return files("rmqcli.report").joinpath("style.css").read_text("utf-8")


def summary_of(tiles: Sequence[Tile], findings: Sequence[Finding]) -> Iterator[str]:
    yield '<section class="summary">\n<h2>Summary</h2>\n<ul class="tiles">'
    yield from map(_tile, tiles)
    yield "</ul>"
    if not findings:
        yield '<p class="quiet">Nothing that was checked needs attention.</p>'
    else:
        yield f"<h3>Needs attention ({len(findings):,})</h3>"
        yield from findings_of(findings)
    yield "</section>"


def _tile(tile: Tile) -> str:
    note = f"<small>{escaped(tile.note)}</small>" if tile.note else ""
    return f"<li{_attributes(tile.value)}><span>{escaped(tile.label)}</span><b>{escaped(tile.value.text)}</b>{note}</li>"


def findings_of(findings: Sequence[Finding]) -> Iterator[str]:
    yield '<ol class="findings">'
    for one in findings:
        what = f"<b>{escaped(' '.join(filter(None, (one.check, one.target))))}:</b>"
        fix = f'<p class="fix">{escaped(one.fix)}</p>' if one.fix else ""
        badge = f'<span class="badge {one.status.value}">{_WORDS.get(one.status, one.status.value)}</span>'
        yield f'<li class="{one.status.value}">{badge}<div><p>{what} {escaped(one.text)}</p>{fix}</div></li>'
    yield "</ol>"


def section_of(section: Section) -> Iterator[str]:
    yield f'<section id="{_anchor(section.title)}">\n<h2>{escaped(section.title)}</h2>'
    if section.intro:
        yield f"<p>{escaped(section.intro)}</p>"
    if section.links:
        links = (_link(one) for one in section.links)
        yield f'<nav aria-label="{escaped(section.title)}">{" ".join(links)}</nav>'
    for block in section.blocks:
        yield from _block(block, section.title)
    yield "</section>"


def _block(block: Block, section: str) -> Iterator[str]:
    match block:
        case Table():
            yield from _table(block, section)
        case Plot():
            yield from _plot(block)
        case Card():
            yield f'<article class="card">\n<h3 class="name">{escaped(block.title)}</h3>'
            yield from facts_of(block.facts)
            yield '<div class="plots">'
            for plot in block.plots:
                yield from _plot(plot)
            yield "</div>\n</article>"
        case Text():
            yield f'<p class="quiet">{escaped(block.text)}</p>'
        case Code():
            yield _code(block)


def _code(code: Code) -> str:
    text = escape(printable(code.text))
    if code.copied:
        button = f'<button type="button" class="copy" aria-label="Copy: {escaped(code.label)}">Copy</button>'
        return f'<p class="command"><span>{escaped(code.label)}</span> <code>{text}</code> {button}</p>'
    return f'<pre tabindex="0" role="region" aria-label="{escaped(code.label)}">{text}</pre>'


def _table(table: Table, section: str) -> Iterator[str]:
    if table.title:
        yield f"<h3>{escaped(table.title)}</h3>"
    label = escaped(table.title or section)
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">\n<table>\n<thead><tr>'
    for heading in table.headings:
        meaning = f' title="{escaped(heading.meaning)}"' if heading.meaning else ""
        kind = ' class="number"' if heading.number else ""
        yield f'<th scope="col"{kind}{meaning}>{escaped(heading.text)}</th>'
    yield "</tr></thead>\n<tbody>"
    for row in table.rows:
        cells = map(_table_cell, table.headings, row)
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody>\n</table>\n</div>"
    if table.left_out:
        yield f'<p class="left-out">{escaped(table.left_out)}</p>'


def _table_cell(heading: Heading, cell: Cell) -> str:
    if heading.number and "number" not in cell.kind:
        cell = cell._replace(kind=f"{cell.kind} number")
    return f"<td{_attributes(cell)}>{_content(cell)}</td>"


def _attributes(cell: Cell) -> str:
    kind = f' class="{escaped(cell.kind)}"' if cell.kind else ""
    exact = f' title="{escaped(cell.exact)}"' if cell.exact else ""
    share = f' style="--share:{cell.share:.3f}"' if cell.share is not None else ""
    return kind + exact + share


def _content(cell: Cell) -> str:
    text = _link(cell) if cell.href else escaped(cell.text)
    return (_spark(cell.counts) if cell.counts else "") + text


def _link(cell: Cell) -> str:
    here = ' aria-current="true"' if cell.kind == "here" else ""
    return f'<a href="{escape(cell.href)}"{here}>{escaped(cell.text)}</a>'


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
    from rmqcli.report import charts  # pygal belongs to an extra, and pages without plots need none

    yield f"<figure{' class=narrow' if plot.narrow else ''}>\n<figcaption>{escaped(plot.title)}</figcaption>"
    yield charts.svg(plot)
    if any(series.name for series in plot.series):
        yield '<ul class="legend">'
        yield from (_legend(number, series) for number, series in enumerate(plot.series))
        yield "</ul>"
    yield "</figure>"


def _legend(number: int, series: Series) -> str:
    total = f" <small>{escaped(series.total)}</small>" if series.total else ""
    return f'<li><i class="color-{number}"></i><span>{escaped(series.name)}{total}</span></li>'
