"""Shows rows of values as a table, TSV or JSON.

A table that is too wide for its terminal is narrowed in steps until it fits (`_fitting`). A row remains a
row: it is never shown as one line per value. Titles and numbers are never cut or wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from rmqcli.grammar.values import GrammarError, UnknownName
from rmqcli.render.output import Output, OutputSettings, note
from rmqcli.render.text import one_line, tsv_cell, tsv_line

if TYPE_CHECKING:
    from rich.table import Table


class Column(NamedTuple):
    """`title` heads the column on a terminal, `key` is the name in JSON, and `show` converts a value to text
    for a terminal.

    `number` aligns to the right and is never wrapped. Where space is short, `brief` converts the value,
    `legend` values become numbers with a list below, `minor` columns are omitted, and `whole` values, such as
    ids, are wrapped last. TSV and JSON contain the plain value.
    """

    title: str
    key: str
    show: Callable[[Any], str] = tsv_cell
    number: bool = False
    whole: bool = False
    minor: bool = False
    legend: bool = False
    brief: Callable[[Any], str] | None = None


_GAP = 2  # blanks between columns
_NARROWEST = 8  # minimum width of a wrapped value; a title is never wrapped


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
    whole: bool = False,
) -> None:
    """Print all rows: a JSON list of objects, TSV or CSV lines, or a table; `settings.rows` selects the
    columns and the order.

    On a terminal, the text `empty` goes to standard error if there are no rows; columns with the keys
    `hidden` are omitted unless requested, and so are columns without a value unless `whole` is true.
    """
    form = settings.rows
    keys = [column.key for column in columns]
    places, rows = form.places(keys), form.ordered(keys, rows)
    shown, cells = [columns[place] for place in places], [[row[place] for place in places] for row in rows]
    if settings.json:
        Output().json(objects(shown, cells))
    elif not settings.table:
        _show_lines(form, shown, cells)
    elif not rows:
        note(empty) if empty else None
    elif form.columns:
        show_table(settings, [column._replace(minor=False) for column in shown], cells, whole=True)
    else:
        kept = [place for place, column in enumerate(columns) if column.key not in hidden]
        values = [[row[place] for place in kept] for row in rows]
        show_table(settings, [columns[place] for place in kept], values, whole=whole)


def show_objects(settings: OutputSettings, documents: Sequence[Mapping[str, Any]]) -> None:
    """Print a JSON list of objects that have more members than rows have columns."""
    Output().json(settings.rows.arranged(documents))


def show_document(settings: OutputSettings, document: Mapping[str, Any], what: str = "this document") -> None:
    """Print one JSON object. Raise GrammarError if columns or an order are requested."""
    settings.rows.refuse(what)
    Output().json(document)


def _show_lines(form: RowForm, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
    output = Output()
    for line in form.head([column.key for column in columns]):
        output.line(line)
    for row in rows:
        output.line(form.line(row))


def show_table(
    settings: OutputSettings,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Any]],
    *,
    whole: bool = False,
) -> None:
    """Print a table for a terminal, without its empty columns unless it is `whole`."""
    from rich.console import Console
    from rich.text import Text

    cells = [
        _Cells(column, [one_line(column.show(row[place])) for row in rows], [row[place] for row in rows])
        for place, column in enumerate(columns)
    ]
    # Empty columns would take space from the others.
    shown = [one for one in cells if whole or any(one.texts)]
    header = "bold" if settings.color else ""
    console = Console(no_color=not settings.color, highlight=False)
    fitting, below = _fitting(shown, console.width, keep=whole)
    kept = {one.column.key for one in fitting}
    told = [f"{line} " for line in below]
    left = [
        one.column.title
        for one in shown
        if one.column.key not in kept and not any(line.startswith(f"{one.column.title} ") for line in told)
    ]
    if left:
        note(f"left out because the terminal is narrow: {', '.join(left)}")
    console.print(_grid(fitting, header, console.width))
    for line in below:
        console.print(Text(line), soft_wrap=True)


class _Cells(NamedTuple):
    """A column, its texts and its values."""

    column: Column
    texts: list[str]
    values: list[Any]

    @property
    def full_width(self) -> int:
        return _width((self.column.title, *self.texts))

    @property
    def least_width(self) -> int:
        if self.column.number or self.column.whole:
            return self.full_width
        return max(_width([self.column.title]), min(_width(self.texts), _NARROWEST))


def _width(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max((cell_len(line) for text in texts for line in text.splitlines()), default=0)


_FEW = 9
"""The most values of the first column that may be numbered."""


def _fitting(cells: Sequence[_Cells], room: int, *, keep: bool) -> tuple[list[_Cells], list[str]]:
    """Return the columns that fit into `room`, and lines to show below them.

    The steps: brief texts; a `whole` value that all rows share is shown once below; `legend` values are
    numbered; `minor` columns are dropped, the last first; `whole` values are wrapped, the first column's
    last; then the last columns are dropped. `keep` keeps all columns, because they were requested.
    """
    kept, below = list(cells), list[str]()

    def wide() -> bool:
        return sum(one.least_width + _GAP for one in kept) - _GAP > room

    for place, one in enumerate(kept):
        if one.column.brief is not None and wide():
            kept[place] = one._replace(texts=[one_line(one.column.brief(value)) for value in one.values])
    everywhere = " in all rows" if cells and len(cells[0].texts) > 1 else ""
    # Never the first column, which distinguishes rows.
    for one in [one for one in kept[:0:-1] if one.column.whole and len(set(one.texts)) == 1]:
        if wide() and not keep:
            kept.remove(one)
            below.append(f"{one.column.title} {one.texts[0]}{everywhere}")
    for place, one in reversed([*enumerate(kept)]):
        # The first column distinguishes rows: a few numbers there help, a list of dozens would not.
        if one.column.legend and wide() and (place or len(set(one.texts)) <= min(_FEW, len(one.texts) // 2)):
            known = {
                text: f"#{number}" for number, text in enumerate(dict.fromkeys(filter(None, one.texts)), 1)
            }
            kept[place] = one._replace(texts=[known.get(text, "") for text in one.texts])
            below += [f"{one.column.title} {number} {text}" for text, number in known.items()]
    for one in [one for one in kept if one.column.minor][::-1]:
        if wide():
            kept.remove(one)
    for one in sorted(kept[1:], key=lambda one: -one.full_width) + kept[:1]:
        if one.column.whole and wide():
            kept[kept.index(one)] = one._replace(column=one.column._replace(whole=False))
    while wide() and len(kept) > 1 and not keep:
        kept.pop()
    return kept, below


def _widths(cells: Sequence[_Cells], room: int) -> list[int]:
    """Return the widths of columns that fit into `room`: the widest is narrowed first, none below its
    minimum.
    """
    widths = [one.full_width for one in cells]
    least = [one.least_width for one in cells]
    excess = sum(widths) + _GAP * (len(widths) - 1) - room
    while excess > 0:
        # Of equal columns, the rightmost one is narrowed, because those on the left distinguish rows.
        widest = max(
            ((width, place) for place, width in enumerate(widths) if width > least[place]), default=None
        )
        if widest is None:
            break  # all columns were requested: the terminal wraps the lines
        widths[widest[1]] -= 1
        excess -= 1
    return widths


def _grid(cells: Sequence[_Cells], header: str, room: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style=header, pad_edge=False)
    for (column, *_), width in zip(cells, _widths(cells, room), strict=True):
        justify: Literal["right", "left"] = "right" if column.number else "left"
        whole = column.number or column.whole
        table.add_column(column.title, justify=justify, overflow="fold", no_wrap=whole, width=width)
    for row in zip(*(one.texts for one in cells), strict=True):
        table.add_row(*map(Text, row))
    return table


BROKER = Column("BROKER", "brokerName", whole=True)
CLIENT = Column("CLIENT", "clientId", whole=True, legend=True)
GROUP = Column("GROUP", "group", whole=True)
LAG = Column("LAG", "lag", lambda lag: "?" if lag is None else str(lag), number=True)
"""The lag in messages; if it is unknown, TSV has an empty field and JSON null."""
LAG_UNKNOWN = Column("LAG UNKNOWN", "lagUnknown")
MAX = Column("MAX", "maxOffset", number=True)
MESSAGES = Column("MESSAGES", "messages", number=True)
NAME_SERVER = Column("NAME SERVER", "nameServer", whole=True)
QUEUE = Column("QUEUE", "queueId", number=True)
QUEUES = Column("QUEUES", "queues", number=True)
USER = Column("USER", "user", whole=True)
TOPIC = Column("TOPIC", "topic", whole=True, legend=True)


# The columns of rows that are shown, the order of rows, and the lines of TSV and CSV.
#
# CSV follows RFC 4180 (a header, CR LF, quotes doubled) with the values of TSV, so no control character is in
# it.

_QUOTED = re.compile('[",]|^ | $')


class RowForm(NamedTuple):
    """The columns to show, by JSON name (none: all), the columns to sort by (`-name`: descending), and
    whether output has a header or is CSV.
    """

    columns: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    header: bool = False
    csv: bool = False

    @property
    def chosen(self) -> bool:
        """True if plain rows are requested instead of a view for people."""
        return bool(self.columns or self.sort or self.csv)

    def places(self, keys: Sequence[str]) -> list[int]:
        """Return the indexes of the columns to show. Raise UnknownName for an unknown column."""
        return [_place("--columns", name, keys) for name in self.columns or keys]

    def ordered(self, keys: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
        """Return the rows sorted: numbers by value, missing values last. Raise UnknownName for an unknown
        column.
        """
        found = list(rows)
        # Sorts are stable, so the first column, which decides, is sorted by last.
        for name in reversed(self.sort):
            place = _place("--sort", name.removeprefix("-"), keys)
            found = _sorted(found, place, descending=name.startswith("-"))
        return found

    def head(self, keys: Sequence[str]) -> list[str]:
        """Return the header as lines without their end: one or none."""
        return [self.line(keys)] if self.header or self.csv else []

    def line(self, values: Iterable[object]) -> str:
        """Return one line of TSV or CSV; Output ends it with LF."""
        return csv_line(values) if self.csv else tsv_line(values)

    def arranged(self, documents: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the JSON objects sorted, with the members to show."""
        if not self.chosen:
            return list(documents)
        keys = list(dict.fromkeys(key for one in documents for key in one))
        if not keys:
            return []
        rows = self.ordered(keys, [[one.get(key) for key in keys] for one in documents])
        places = self.places(keys)
        return [{keys[place]: row[place] for place in places} for row in rows]

    def names(self, keys: Sequence[str], default: Sequence[str]) -> list[str]:
        """Return the columns to show of rows that are printed as they arrive. Raise UnknownName for an
        unknown column, and GrammarError for a sort order.
        """
        self.refuse_sort()
        return [keys[place] for place in self.places(keys)] if self.columns else list(default)

    def refuse(self, what: str) -> None:
        """Raise GrammarError if any of the options is given, because `what` has no rows."""
        if self.chosen or self.header:
            raise GrammarError(f"--columns, --sort, --header and --csv are for rows, and {what} has none")

    def refuse_sort(self) -> None:
        """Raise GrammarError for a sort order of rows that are printed while they are read."""
        if self.sort:
            raise GrammarError("--sort: rows are printed as they come; sort them behind a pipe: … | sort")


ALL = RowForm()


def csv_line(values: Iterable[object]) -> str:
    """Return one line that ends with CR."""
    return ",".join(_csv_cell(tsv_cell(value)) for value in values) + "\r"


def _csv_cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def _place(option: str, name: str, keys: Sequence[str]) -> int:
    if name not in keys:
        raise UnknownName(f"{option} {name}: expected {', '.join(keys)}", "column", name, keys)
    return list(keys).index(name)


def _sorted(rows: list[Sequence[Any]], place: int, *, descending: bool) -> list[Sequence[Any]]:
    known = [row for row in rows if row[place] not in (None, "")]
    missing = [row for row in rows if row[place] in (None, "")]
    numbers = [_number(row[place]) for row in known]
    if None not in numbers:
        # By identity: rows may be lists, which cannot be keys.
        order = dict(zip(map(id, known), numbers, strict=True))
        # No number is None here; `or 0` is for the type checker.
        known.sort(key=lambda row: order[id(row)] or 0, reverse=descending)
    else:
        known.sort(key=lambda row: tsv_cell(row[place]), reverse=descending)
    return known + missing


def _number(value: Any) -> float | None:
    """Return the number that a value is or represents: strings of digits also compare as numbers."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    # float() also reads names: "nan", which is neither before nor after any number, and "inf".
    return number if isfinite(number) else None


class Line(Protocol):
    """The values of one name by server; None if there is none."""

    @property
    def name(self) -> str: ...
    @property
    def values(self) -> Mapping[str, str | None]: ...
    @property
    def differs(self) -> bool: ...


def show_matrix(
    settings: OutputSettings, first: Column, servers: Sequence[str], lines: Sequence[Line], *, empty: str = ""
) -> None:
    """Print lines with these columns: the name, one per server, and whether the values differ.

    JSON has an object for each line: the name under the key of `first`, `values` by server, and `differs`.
    """
    if settings.json:
        show_objects(
            settings,
            [{first.key: line.name, "values": dict(line.values), "differs": line.differs} for line in lines],
        )
        return
    columns = [first, *(Column(server, server) for server in servers), Column("DIFFERS", "differs", _mark)]
    rows = [[line.name, *(line.values[server] for server in servers), line.differs] for line in lines]
    show_rows(settings, columns, rows, empty=empty)


def _mark(value: Any) -> str:
    return "differs" if value else ""
