"""Shows rows of values as a table, TSV or JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from rmqcli.render.output import Output, OutputSettings, note
from rmqcli.render.text import printable, tsv_cell, tsv_line


class Column(NamedTuple):
    """`title` heads the column on a terminal, `key` is the name in JSON, and `show` makes the text for a
    terminal.

    `number` aligns to the right; numbers and `whole` values are never wrapped. TSV and JSON contain the plain
    value.
    """

    title: str
    key: str
    show: Callable[[Any], str] = tsv_cell
    number: bool = False
    whole: bool = False


def objects(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the JSON objects of rows."""
    return [{column.key: value for column, value in zip(columns, row, strict=True)} for row in rows]


def show_rows(
    settings: OutputSettings,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Any]],
    *,
    empty: str = "",
    hidden: Collection[str] = (),
) -> None:
    """Print all rows: a JSON list of objects, TSV lines, or a table.

    On a terminal, standard error gets the text `empty` for no rows, and columns with the keys `hidden` are left
    out.
    """
    if settings.json:
        Output().json(objects(columns, rows))
    elif not settings.terminal:
        output = Output()
        for row in rows:
            output.line(tsv_line(row))
    elif rows:
        shown = [place for place, column in enumerate(columns) if column.key not in hidden]
        show_table(
            settings, [columns[place] for place in shown], [[row[place] for place in shown] for row in rows]
        )
    elif empty:
        note(empty)


def show_table(settings: OutputSettings, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table for a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    header = "bold" if settings.color else ""
    table = Table(box=None, header_style=header, pad_edge=False)
    texts = [
        [printable(column.show(value)) for column, value in zip(columns, row, strict=True)] for row in rows
    ]
    # Empty columns would take space from the others.
    shown = [place for place in range(len(columns)) if any(row[place] for row in texts)]
    for place in shown:
        column = columns[place]
        justify: Literal["right", "left"] = "right" if column.number else "left"
        table.add_column(
            column.title, justify=justify, overflow="fold", no_wrap=column.number or column.whole
        )
    for row in texts:
        table.add_row(*(Text(row[place]) for place in shown))
    Console(no_color=not settings.color, highlight=False).print(table)
