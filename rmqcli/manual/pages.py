"""Man pages in roff (man macros): rmq.1 and one for each command and group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rmqcli import __version__
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.grammar import offset_range
from rmqcli.manual.tree import Node, Option
from rmqcli.render import message_format

__all__ = ["man_pages"]

_EXIT_TEXTS: Mapping[ExitCode, str] = {
    ExitCode.DONE: "Done.",
    ExitCode.FAILED: "Refused by a server, or failed.",
    ExitCode.USAGE: "The command line is wrong; nothing was done.",
    ExitCode.PARTLY: "Partly done; standard error says which items were not.",
    ExitCode.NOT_FOUND: "The topic, group, queue, message or file is not there.",
    ExitCode.NO_CONNECTION: "No server could be reached.",
    ExitCode.NOT_PERMITTED: "Not permitted.",
    ExitCode.TIMED_OUT: "Timed out.",
    ExitCode.CORRUPT: "Stored data is damaged.",
    ExitCode.INTERRUPTED: "Interrupted (Ctrl-C).",
}
_ENVIRONMENT = {
    "RMQ_NAMESRV, NAMESRV_ADDR": "Name servers, when neither -n nor --profile is given; the first that is set.",
    "RMQ_PROFILE": "The profile to use when no name server is given in any other way.",
    "RMQ_CONFIG_DIR": "The folder of profiles.toml, instead of the user's configuration folder.",
    "RMQ_STATE_DIR": "The folder of the undo files, instead of the user's state folder.",
    "NO_COLOR": "No colours when set.",
}
_OUTPUT = (
    "On a terminal results are tables. In a pipe they are lines of tab-separated fields without a header, one item a line; "
    "tab, line ends and backslash in a value are written \\t, \\n, \\r and \\\\. With --json they are one JSON document, or "
    "one line for each message."
)


def man_pages(nodes: Iterable[Node]) -> dict[str, str]:
    """File name and text of every page."""
    known = list(nodes)
    return {f"{_page(node)}.1": _render(node, known) for node in known}


def _page(node: Node) -> str:
    return "-".join(("rmq", *node.path))


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.M)


def _paragraphs(text: str) -> list[str]:
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]
    return [line for part in parts for line in (".PP", _roff(part))]


def _verbatim(lines: Iterable[str]) -> list[str]:
    return [".PP", ".nf", ".RS 4", *(_roff(line) or "." for line in lines), ".RE", ".fi"]


def _items(items: Iterable[tuple[str, str]]) -> list[str]:
    return [line for term, text in items for line in (".TP", f"\\fB{_roff(term)}\\fR", _roff(text) or "\\&")]


def _options(options: Iterable[Option], title: str) -> list[str]:
    items = [(option.usage, option.text) for option in options]
    return [f".SH {title}", *_items(items)] if items else []


def _render(node: Node, nodes: list[Node]) -> str:
    lines = [
        '.\\" Made by python -m rmqcli.manual; do not edit.',
        f'.TH "{_page(node).upper()}" "1" "" "rmq {__version__}" "rmq manual"',
        ".SH NAME",
        f"{_roff(_page(node))} \\- {_roff(node.summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{_roff(node.name)}\\fR {_roff(node.usage)}",
        ".SH DESCRIPTION",
        *_paragraphs(node.description),
    ]
    if node.commands:
        lines += [".SH COMMANDS", *_items((f"{node.name} {name}", text) for name, text in node.commands)]
    if node.arguments:
        lines += [".SH ARGUMENTS", *_items(node.arguments)]
    lines += _options((option for option in node.options if not option.is_global), "OPTIONS")
    lines += _options((option for option in node.options if option.is_global), '"GLOBAL OPTIONS"')
    lines += _grammars(node)
    if node.examples:
        lines += [".SH EXAMPLES", *_verbatim(node.examples)]
    if not node.path:
        lines += [".SH OUTPUT", *_paragraphs(_OUTPUT), ".SH ENVIRONMENT", *_items(_ENVIRONMENT.items())]
    lines += ['.SH "EXIT STATUS"', *_items((str(code.value), text) for code, text in _EXIT_TEXTS.items())]
    lines += [".SH SEE ALSO".replace("SEE ALSO", '"SEE ALSO"'), _see_also(node, nodes)]
    return "\n".join(lines) + "\n"


def _grammars(node: Node) -> list[str]:
    metavars = {option.usage.rpartition(" ")[2] for option in node.options}
    lines: list[str] = []
    if "RANGE" in metavars:
        lines += [".SH RANGES", *_document(offset_range.__doc__)]
    if "FORMAT" in metavars:
        lines += [".SH FORMATS", *_document(message_format.__doc__)]
    return lines


def _document(text: str | None) -> list[str]:
    """A module's docstring without its first sentence's name: indented blocks stay as they are."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", (text or "").strip()):
        rows = block.splitlines()
        lines += _verbatim(row.strip() for row in rows) if rows[0].startswith("    ") else _paragraphs(block)
    return lines


def _see_also(node: Node, nodes: list[Node]) -> str:
    parent = node.path[:-1] if node.path else None
    related = [other for other in nodes if other is not node and _related(node, other, parent)]
    return ",\n".join(f"\\fB{_roff(_page(other))}\\fR(1)" for other in related)


def _related(node: Node, other: Node, parent: tuple[str, ...] | None) -> bool:
    if other.path == parent or (other.path[:-1] == node.path and other.path):
        return True
    return bool(node.path) and len(node.path) > 1 and other.path[:-1] == parent and bool(other.path)
