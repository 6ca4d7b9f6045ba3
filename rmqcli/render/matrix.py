"""Shows the values that several servers have under the same names, one column for each server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rmqcli.render.output import OutputSettings
from rmqcli.render.table import Column, show_objects, show_rows


class Line(Protocol):
    """The values of one name by server; None where there is none."""

    @property
    def name(self) -> str: ...
    @property
    def values(self) -> Mapping[str, str | None]: ...
    @property
    def differs(self) -> bool: ...


def show_matrix(
    settings: OutputSettings, first: Column, servers: Sequence[str], lines: Sequence[Line], *, empty: str = ""
) -> None:
    """Print lines with the columns name, one of each server, and whether the values differ.

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
