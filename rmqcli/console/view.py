"""A view: the content of one address of the console, without markup."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlencode

from rmqcli.client import Admin
from rmqcli.console.content import Content
from rmqcli.console.shared import Live, Readings
from rmqcli.doctor.finding import Finding
from rmqcli.render.text import one_line
from rmqcli.report import cells
from rmqcli.report.page import Cell, Code, Section, Tile

MAX_ROWS = 200


class Field(NamedTuple):
    """A field of a form: its name in the address, its label, its value, and an example."""

    name: str
    label: str
    value: str = ""
    example: str = ""
    kind: str = "search"


class Form(NamedTuple):
    """A form that leads to another view. `kept` are values that it adds."""

    address: str
    label: str
    button: str
    fields: Sequence[Field]
    kept: Mapping[str, str] = {}
    error: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """`findings` is None if nothing is checked. `is_live`: it changes with the polls."""

    kind: str
    name: str
    facts: Sequence[tuple[str, Cell]] = ()
    form: Form | None = None
    tiles: Sequence[Tile] = ()
    findings: Sequence[Finding] | None = None
    sections: Sequence[Section] = ()
    is_live: bool = True
    status: int = 200


@dataclass(frozen=True, slots=True)
class Console:
    """The cluster and its shared state. `where` names its name servers, `words` are the options of a command
    for it.
    """

    admin: Admin
    where: str
    words: str
    content: Content
    live: Live
    readings: Readings = field(default_factory=lambda: Readings(5.0))

    def command(self, label: str, verb: str, *names: str, options: Sequence[str] = ()) -> Code | None:
        """Return a command to copy; None if a shell would not show a name as it is."""
        words = [*names, *options]
        if any(one_line(word) != word for word in words):
            return None
        if any(name.startswith("-") for name in names):
            parts = [shlex.join(options), self.words, shlex.join(["--", *names])]
        else:
            parts = [shlex.join(names), shlex.join(options), self.words]
        return Code(label, " ".join(filter(None, ["rmq", verb, *parts])), copied=True)


def commands(*found: Code | None) -> Section:
    """Return the section of commands that change or show more."""
    shown = [one for one in found if one is not None]
    return Section("Commands", shown, "This page changes nothing; these commands do, or show more.")


def address(path: str, **values: object) -> str:
    """Return the address of a view; values that are None or empty are left out."""
    given = {name: str(value) for name, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogateescape')}" if given else path


def topic_cell(name: str) -> Cell:
    return cells.name(name)._replace(href=address("/topic", name=name))


def group_cell(name: str | None) -> Cell:
    return cells.NOTHING if name is None else cells.name(name)._replace(href=address("/group", name=name))
