"""The values of a page: its content, without markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rmqcli import files
from rmqcli.doctor.finding import Finding, Status


class Cell(NamedTuple):
    """One value of a table.

    `exact` is the unrounded `text`, `kind` a class of the style sheet (number, name, ok, warn, fail, bar),
    and `share` the fraction of the largest value of its column, 0 to 1, drawn as a bar in the background.
    `counts` are drawn as a line of bars. `href` is the address of another page, quoted.
    """

    text: str
    exact: str = ""
    kind: str = ""
    share: float | None = None
    counts: Sequence[int] = ()
    href: str = ""


class Heading(NamedTuple):
    """The head of a column; `meaning` is its tooltip."""

    text: str
    meaning: str = ""
    number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in order of importance. `left_out` is a line about the rows that are not shown."""

    headings: Sequence[Heading]
    rows: Sequence[Sequence[Cell]]
    left_out: str = ""
    title: str = ""


class Series(NamedTuple):
    """The values of a plot by position, 0 or more, and their sum as text."""

    name: str
    values: Sequence[int]
    total: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Bars, stacked if there are several series. `labels` name the positions, `marks` are those that the axis
    shows. `unit` is that of the values, in the plural.
    """

    title: str
    labels: Sequence[str]
    series: Sequence[Series]
    unit: str = "messages"
    marks: Sequence[int] = ()
    narrow: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """A heading with facts and narrow plots side by side."""

    title: str
    facts: Sequence[tuple[str, Cell]]
    plots: Sequence[Plot]


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Code(NamedTuple):
    """A text as it is, such as a body, under a label; newlines are kept. `copied`: a command for readers to copy."""

    label: str
    text: str
    copied: bool = False


Block = Table | Plot | Card | Text | Code


@dataclass(frozen=True, slots=True)
class Section:
    """`links` are other forms of the section; that of the kind "here" is shown."""

    title: str
    blocks: Sequence[Block]
    intro: str = ""
    links: Sequence[Cell] = ()


class Tile(NamedTuple):
    """A figure of the summary."""

    label: str
    value: Cell
    note: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page. `findings` are those that need attention, the worst first; `judged` is the number of
    completed checks.
    """

    kind: str
    name: str
    made_ms: int
    facts: Sequence[tuple[str, Cell]]
    tiles: Sequence[Tile]
    findings: Sequence[Finding]
    sections: Sequence[Section]


MAX_ALIKE = 5
"""The maximum number of findings of one kind that the summary lists."""


def attention(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that need attention, the worst first; of each kind at most MAX_ALIKE, and the
    number of the others.
    """
    found: list[Finding] = []
    for status in (Status.FAIL, Status.WARN):
        kinds: dict[str, list[Finding]] = {}
        for one in findings:
            if one.status is status:
                kinds.setdefault(one.check, []).append(one)
        for check, alike in kinds.items():
            found += alike[:MAX_ALIKE]
            if len(alike) > MAX_ALIKE:
                text = f"{len(alike) - MAX_ALIKE:,} more of this kind, {len(alike):,} in all"
                found.append(Finding(status, check, "", text))
    return found


STDOUT = Path("-")


def refuse_existing(out: Path, *, replace: bool) -> None:
    """Raise as `files.refuse_existing` does, never for standard output."""
    if out != STDOUT:
        files.refuse_existing(out, replace=replace)


def save(out: Path, page: bytes, *, replace: bool) -> None:
    """Write a temporary file and rename it, so that no incomplete page is visible, and an error keeps the old
    one.
    """
    refuse_existing(out, replace=replace)
    files.replace_file(out, page)
