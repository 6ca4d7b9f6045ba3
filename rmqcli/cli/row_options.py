"""The options of commands that print rows."""

from __future__ import annotations

from enum import Enum
from typing import Any

import typer

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Given

PANEL = "Rows"


class Rows(Enum):
    """The JSON of a command that prints rows."""

    LIST = 1
    """A list of rows, or one row per line."""
    DOCUMENT = 2
    """A document of another form."""


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=PANEL, **settings)


_COLUMNS_HELP = "Columns to show, in this order; names as in JSON, separated by commas."
_SORT_HELP = "Columns to sort by, separated by commas; -COLUMN is descending."
OPTIONS: dict[str, tuple[Any, Any]] = {
    "columns": (list[str] | None, _option("--columns", metavar="NAMES", help=_COLUMNS_HELP)),
    "sort": (list[str] | None, _option("--sort", metavar="[-]COLUMN", help=_SORT_HELP)),
    "header": (bool | None, _option("--header", help="Begin piped output with the names of columns.")),
    "csv": (bool | None, _option("--csv", help="Output CSV with a header (RFC 4180).")),
}


def check(rows: Rows | None, given: Given) -> None:
    """Raise a usage error for columns or an order of a JSON document that is not a list of rows."""
    if rows is Rows.DOCUMENT and given.json and (given.columns or given.sort):
        name = "--columns" if given.columns else "--sort"
        raise usage_error(f"{name} and --json cannot be combined here: the document is not a list of rows")
