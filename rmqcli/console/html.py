"""Views as documents. A document works without its script, which only refreshes it and copies commands."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files

from rmqcli import __version__
from rmqcli.console.shared import Live
from rmqcli.console.view import Field, Form, View
from rmqcli.report.cells import moment
from rmqcli.report.html import escaped, facts_of, head_of, section_of, style, summary_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Styles of attributes are the bars of tables, whose values are numbers."""
_PAGES = (("/", "Overview", "Cluster"), ("/dead-letters", "Dead letters", "Dead letters"))
"""Address, title, and the kind of the view there."""


def script() -> bytes:
    return files("rmqcli.console").joinpath("console.js").read_bytes()


def sheet() -> bytes:
    """Return the style sheet of the report, with the additions of the console."""
    return style().encode() + files("rmqcli.console").joinpath("console.css").read_bytes()


def document(view: View, live: Live, where: str) -> str:
    """Return the document of a view."""
    return "\n".join(_document(view, live, where)) + "\n"


def _document(view: View, live: Live, where: str) -> Iterator[str]:
    yield from head_of(
        f"{view.name} – {view.kind} – rmq console",
        '<link rel="icon" href="data:,">\n<link rel="stylesheet" href="/console.css">',
        '<script src="/console.js" defer></script>',
    )
    yield f'<body data-live="{"yes" if view.is_live else "no"}">'
    yield '<a class="skip" href="#main">Skip to the content</a>'
    yield from _header(view, live, where)
    yield '<main id="main" tabindex="-1">'
    if view.form is not None:
        yield from _form(view.form)
    if view.findings is not None:
        yield from summary_of(view.tiles, view.findings)
    for section in view.sections:
        yield from section_of(section)
    yield "</main>"
    yield f"<footer>rmq {escaped(__version__)}. All times are UTC; point at a number for its exact value.</footer>"
    yield "</body>\n</html>"


def _header(view: View, live: Live, where: str) -> Iterator[str]:
    yield '<header>\n<div class="bar"><nav aria-label="Pages">'
    for href, title, kind in _PAGES:
        here = ' aria-current="page"' if kind == view.kind else ""
        yield f'<a href="{href}"{here}>{title}</a>'
    yield f'</nav><p id="updated">{_updated(live, where)}</p>'
    yield f'<button type="button" id="pause" data-seconds="{live.interval:g}" aria-pressed="false">Pause</button></div>'
    yield f'<p id="status" role="status" class="{"outage" if live.outage else ""}">{_status(live)}</p>'
    yield f'<p class="kind">{escaped(view.kind)}</p>\n<h1>{escaped(view.name)}</h1>'
    if view.facts:
        yield from facts_of(view.facts)
    yield "</header>"


def _updated(live: Live, where: str) -> str:
    read = "not read yet" if live.read_ms is None else f"as of {moment(live.read_ms).text} UTC"
    return f"{escaped(where)}, {read}"


def _status(live: Live) -> str:
    """Return the line that screen readers announce when it changes: outages and their ends, not each refresh."""
    if live.outage is not None:
        before = "" if live.read_ms is None else " The figures are those from before."
        since = moment(live.outage.since_ms).text
        return f"Outage since {since} UTC: {escaped(live.outage.why)}.{before}"
    if live.is_recovered:
        return f"The cluster answers again since {moment(live.recovered_ms).text} UTC."
    return ""


def _form(form: Form) -> Iterator[str]:
    yield f'<form action="{escape(form.address)}" role="search" aria-label="{escaped(form.label)}">'
    for name, value in form.kept.items():
        yield f'<input type="hidden" name="{escape(name)}" value="{_value(value)}">'
    wrong = ' aria-describedby="wrong"' if form.error else ""
    for one in form.fields:
        yield _field(one, wrong)
    yield f"<button>{escaped(form.button)}</button>"
    if form.error:
        yield f'<p id="wrong" role="alert">{escaped(form.error)}</p>'
    yield "</form>"


def _field(one: Field, wrong: str) -> str:
    return (
        f'<label><span>{escaped(one.label)}</span><input type="{one.kind}" name="{one.name}" value="{_value(one.value)}" '
        f'placeholder="{escaped(one.example)}" autocomplete="off" spellcheck="false"{wrong}></label>'
    )


def _value(text: str) -> str:
    """Return a value of a form unchanged, except for characters that no document can contain."""
    return escape("".join(one for one in text if one.isprintable() or one == " "))
