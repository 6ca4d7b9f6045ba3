"""Writes the tables of docs/mqadmin.md from docs/mqadmin.tsv: `python -m docs.make_mqadmin`."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).with_name("mqadmin.tsv")
PAGE = Path(__file__).with_name("mqadmin.md")
BLOCK = re.compile(r"(<!-- commands of mqadmin -->\n).*?(<!-- end -->\n)", re.DOTALL)
EVERY = ("4.9", "5")


class Row(NamedTuple):
    """A command of mqadmin; `commands` are the command lines of rmq, none if there is no equal."""

    area: str
    name: str
    versions: tuple[str, ...]
    commands: tuple[str, ...]
    note: str


def rows() -> list[Row]:
    """Return the rows of the data file, in its order."""
    _, *lines = DATA.read_text().splitlines()
    cells = (line.split("\t") for line in lines)
    return [
        Row(area, name, tuple(versions.split()), tuple(filter(None, rmq.split("; "))), note)
        for area, name, versions, rmq, note in cells
    ]


def tables() -> str:
    """Return a table for each area."""
    parts = []
    for area, found in groupby(rows(), key=lambda row: row.area):
        lines = [f"## {area}", "", "| mqadmin | rmq | |", "|---|---|---|", *map(_line, found), ""]
        parts.append("\n".join(lines))
    return "\n" + "\n".join(parts) + "\n"


def _line(row: Row) -> str:
    only = "" if row.versions == EVERY else f" ({'4.9' if row.versions == ('4.9',) else '5.x'})"
    commands = "<br>".join(f"`{command}`" for command in row.commands) or "none"
    return f"| `{row.name}`{only} | {commands} | {row.note} |"


def written(text: str) -> str:
    """Return the page with the tables of today."""
    return BLOCK.sub(lambda match: match[1] + tables() + match[2], text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
