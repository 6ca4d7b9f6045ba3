"""The columns of rows that are shown, the order of rows, and the lines of TSV and CSV.

CSV follows RFC 4180 (a header, CR LF, quotes doubled) with the values of TSV, so no control character is in
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rmqcli.grammar.errors import GrammarError, UnknownName
from rmqcli.render.text import tsv_cell, tsv_line

_QUOTED = re.compile('[",]|^ | $')


@dataclass(frozen=True, slots=True)
class RowForm:
    """The columns to show by JSON name (none: all), the columns to sort by (`-name`: descending), and whether
    lines begin with a header or are CSV.
    """

    columns: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    header: bool = False
    csv: bool = False

    @property
    def chosen(self) -> bool:
        """True if rows are wanted as they are, not a view for people."""
        return bool(self.columns or self.sort or self.csv)

    def places(self, keys: Sequence[str]) -> list[int]:
        """Return the places of the columns to show; raise UnknownName."""
        return [_place("--columns", name, keys) for name in self.columns or keys]

    def ordered(self, keys: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
        """Return the rows sorted: numbers by value, missing values last. Raise UnknownName."""
        found = list(rows)
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
        """Return JSON objects in order, with the members that are shown."""
        if not self.chosen:
            return list(documents)
        keys = list(dict.fromkeys(key for one in documents for key in one))
        if not keys:
            return []
        rows = self.ordered(keys, [[one.get(key) for key in keys] for one in documents])
        places = self.places(keys)
        return [{keys[place]: row[place] for place in places} for row in rows]

    def names(self, keys: Sequence[str], default: Sequence[str]) -> list[str]:
        """Return the columns to show of rows that are printed as they come; raise UnknownName, and
        GrammarError for an order.
        """
        self.refuse_sort()
        return [keys[place] for place in self.places(keys)] if self.columns else list(default)

    def refuse(self, what: str) -> None:
        """Raise GrammarError if any of the options is given, as `what` has no rows."""
        if self.chosen or self.header:
            raise GrammarError(f"--columns, --sort, --header and --csv are for rows, and {what} has none")

    def refuse_sort(self) -> None:
        """Raise GrammarError for an order of rows that are printed while they are read."""
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
        order = dict(zip(map(id, known), numbers, strict=True))
        known.sort(key=lambda row: order[id(row)] or 0, reverse=descending)
    else:
        known.sort(key=lambda row: tsv_cell(row[place]), reverse=descending)
    return known + missing


def _number(value: Any) -> float | None:
    """Return the number that a value is or spells; texts of digits compare as numbers, too."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
