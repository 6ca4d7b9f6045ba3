"""The help of a command: the most important part fits on a screen, the rest follows.

First come the summary, examples, arguments and common options, in 24 lines of 80 columns; options that do not
fit are listed as "More options". After them come the panels of rarer options and the details,
which are the further paragraphs of the command's docstring. Global options are described in `rmq --help`
only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rmqcli.cli.row_options import PANEL

LINES = 24
"""Lines of the common part."""
GLOBAL_PANEL = "Global options"
GLOBAL_LINE = "Options of every command, such as -n and --json: rmq --help"
_EXAMPLES = 3
_MORE = "More options"
_COLUMN = 26

Row = tuple[str, str]

# Patterns as texts, which re compiles when one is first used: most commands use none of them.
_RANGE = r"(?P<low>[\d.]+<=)?x(?P<sign>[<>]=)(?P<bound>[\d.]+)(?=[];])"
_NOTHING = r"; (?=\])|\s*\[\]"
# Nobody expects a negative number of seconds; limits such as 0.001 mean "more than 0".
_LEAST = {"0": "", "0.0": "", "0.001": "more than 0"}


def in_words(text: str) -> str:
    """Return the text of an option with its bounds in words: Click writes `x>=1` and `0<=x<=65535`."""

    def words(found: re.Match[str]) -> str:
        low, sign, bound = found["low"], found["sign"], found["bound"]
        if low is not None:
            return f"{low.removesuffix('<=')} to {bound}"
        if sign == "<=":
            return f"at most {bound}"
        return _LEAST.get(bound, f"at least {bound}")

    return re.sub(_NOTHING, "", re.sub(_RANGE, words, text))


def row_of(parameter: Any, context: Any) -> Row | None:
    """Return the usage and the text of an argument or option; None if it is hidden."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    if parameter.param_type_name == "argument":  # without the type that typer adds
        return str(parameter.metavar or parameter.name.upper()), record[1]
    return " ".join(record[0].split()), in_words(" ".join(record[1].split()))


def is_global(parameter: Any) -> bool:
    return getattr(parameter, "rich_help_panel", None) == GLOBAL_PANEL


def panel_title(parameter: Any) -> str:
    """Return the title of the panel that an option itself declares, or ""."""
    title = getattr(parameter, "rich_help_panel", None)
    return "" if title is None or title == GLOBAL_PANEL else str(title)


def summary_and_details(text: str) -> tuple[str, str]:
    """Return the first paragraph of a docstring, and the others."""
    summary, _, details = text.replace("\b\n", "").strip().partition("\n\n")
    return summary, details.strip()


def examples(epilog: str | None) -> list[str]:
    """Return the lines of the examples."""
    return [line[2:] for line in (epilog or "").splitlines() if line.startswith("  ")]


def write_help(command: Any, context: Any, formatter: Any) -> None:
    """Write the help of a command that has no subcommands."""
    command.format_usage(context, formatter)
    summary, details = summary_and_details(command.help or "")
    _text(formatter, summary)
    lines = examples(command.epilog)
    _lines(formatter, "Examples" if len(lines) > 1 else "Example", lines[:_EXAMPLES])
    _rows(formatter, "Arguments", _named(command, context, "argument").values())
    options = _named(command, context, "option")
    panels = _panels(command, options) | _rows_panel(command, options)
    _common_options(formatter, list(options.values()), panels)
    for title, rows in panels.items():
        _rows(formatter, title, rows)
    if details:
        with formatter.section("Details"):
            formatter.write_text(details)
    _lines(formatter, "More examples", lines[_EXAMPLES:])


def write_group_help(group: Any, context: Any, formatter: Any) -> None:
    """Write the help of a group of commands; that of `rmq` itself also describes the global options."""
    root = context.parent is None
    group.format_usage(context, formatter)
    _text(formatter, " ".join(summary_and_details(group.help or "")))
    if root:
        _lines(formatter, "Examples", examples(group.epilog))
    group.format_commands(context, formatter)
    parameters = group.get_params(context)
    if root:
        _rows(formatter, GLOBAL_PANEL, _some(parameters, context))
    else:
        _text(formatter, GLOBAL_LINE)


def _some(parameters: Iterable[Any], context: Any) -> Iterator[Row]:
    rows = (row_of(parameter, context) for parameter in parameters)
    return (row for row in rows if row is not None)


def _named(command: Any, context: Any, kind: str) -> dict[str, Row]:
    """Return the rows of the arguments or options by name, except global ones and --help."""
    parameters = [one for one in command.get_params(context) if one.param_type_name == kind]
    chosen = [one for one in parameters if not is_global(one) and "--help" not in one.opts]
    found = ((max(one.opts, key=len), row_of(one, context)) for one in chosen)
    return {name: row for name, row in found if row is not None}


def panels_of(command: Any) -> Mapping[str, str]:
    """Return the rarer options of a command by the title of their panel."""
    found: Mapping[str, str] = getattr(command.callback, "panels", {})
    return found


def _panels(command: Any, options: dict[str, Row]) -> dict[str, list[Row]]:
    """Remove the rarer options from `options`, and return them by the title of their panel."""
    titles = panels_of(command).items()
    found = {
        title: [options.pop(name) for name in names.split() if name in options] for title, names in titles
    }
    return {title: rows for title, rows in found.items() if rows}


def _rows_panel(command: Any, options: dict[str, Row]) -> dict[str, list[Row]]:
    """Remove the options of rows from `options`, and return them by the title of their panel."""
    names = [max(one.opts, key=len) for one in command.params if panel_title(one) == PANEL]
    return {PANEL: [options.pop(name) for name in names]} if names else {}


def _common_options(formatter: Any, rows: list[Row], panels: dict[str, list[Row]]) -> None:
    written = formatter.getvalue().count("\n")
    room = LINES - written - 4  # a blank line and a title; a blank line and the line on global options
    # One option is shown here even if it does not fit.
    fitting = next(n for n in range(len(rows), -1, -1) if n <= 1 or _height(formatter, rows[:n]) <= room)
    _rows(formatter, "Options", rows[:fitting])
    _text(formatter, GLOBAL_LINE)
    _rows(formatter, _MORE, rows[fitting:])


def _height(formatter: Any, rows: Sequence[Row]) -> int:
    other = type(formatter)(width=formatter.width)
    other.indent()
    other.write_dl(rows, col_max=_COLUMN)
    return int(other.getvalue().count("\n"))


def _rows(formatter: Any, title: str, rows: Iterable[Row]) -> None:
    found = list(rows)
    if found:
        with formatter.section(title):
            formatter.write_dl(found, col_max=_COLUMN)


def _text(formatter: Any, text: str) -> None:
    formatter.write_paragraph()
    formatter.write_text(text)


def _lines(formatter: Any, title: str, lines: Sequence[str]) -> None:
    """Write lines that users type, which must not be wrapped."""
    if lines:
        with formatter.section(title):
            formatter.write("".join(f"  {line}\n" for line in lines))
