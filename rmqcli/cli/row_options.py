"""The options of commands that print rows, and which commands those are.

A test compares both tables with what the commands call. A command of a group inside a group is named by its
last two words, as `config show`.
"""

from __future__ import annotations

from typing import Any

import typer

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Given

PANEL = "Rows"

LISTS = frozenset(
    (
        *("pull", "tail", "consume", "query", "request", "send", "id", "trace", "cheat", "top", "sql"),
        *("spark package", "dlq list", "dlq show"),
        *("topic list", "topic describe", "topic stats", "topic top", "topic entries", "topic allocate"),
        *("group list", "group settings", "group deliver", "offsets show"),
        *("cluster list", "cluster producers"),
        *("broker status", "broker lag", "broker ping", "config show", "config diff"),
        *("kv list", "order show", "static show", "ha show", "ha epochs", "cold show"),
        *("acl version", "acl check", "acl list", "user list", "user show", "policy list", "policy show"),
        *("controller status", "controller replicas"),
        *("profile list", "profile show", "profile current", "profile test"),
        *("inspect commitlog", "inspect consumequeue", "inspect index", "inspect topics", "inspect groups"),
        *("inspect offsets", "inspect delay", "inspect transactions", "inspect rocksdb"),
    )
)
"""Commands whose JSON is a list of rows, or a row a line."""
DOCUMENTS = frozenset(
    (
        *(
            "doctor",
            "group check",
            "group describe",
            "group clients",
            "group status",
            "topic route",
            "cluster diff",
        ),
        *("bench send", "bench consume", "bench e2e", "inspect store"),
        *("topic apply", "group apply", "cluster apply", "config set", "broker drain", "broker undrain"),
        *("clean queues", "clean topics", "clean log", "kv set", "kv delete", "order set", "order clear"),
        *(
            "static update",
            "static remap",
            "group mode",
            "ha reset",
            "cold set",
            "cold remove",
            "cold read-ahead",
        ),
        *("rocksdb export", "rocksdb compare", "rocksdb pop"),
        *("acl set", "acl delete", "acl whitelist", "user create", "user update", "user delete", "user copy"),
        *("policy set", "policy delete", "policy copy"),
        *("offsets reset", "offsets clone", "dlq redrive"),
    )
)
"""Commands that print rows in a pipe and on a terminal, but whose JSON is not a list of rows."""


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=PANEL, **settings)


_COLUMNS_HELP = "Columns to show, in this order; names as in JSON, separated by commas."
_SORT_HELP = "Order of the rows; -COLUMN is descending, commas separate several."
OPTIONS: dict[str, tuple[Any, Any]] = {
    "columns": (list[str] | None, _option("--columns", metavar="NAMES", help=_COLUMNS_HELP)),
    "sort": (list[str] | None, _option("--sort", metavar="[-]COLUMN", help=_SORT_HELP)),
    "header": (bool | None, _option("--header", help="Begin the lines of a pipe with the names of columns.")),
    "csv": (bool | None, _option("--csv", help="Output CSV with a header (RFC 4180).")),
}


def path_of(group: str | None, name: str) -> str:
    """Return the name of a command in the tables."""
    return f"{group} {name}" if group else name


def prints_rows(path: str) -> bool:
    return path in LISTS or path in DOCUMENTS


def check(path: str, given: Given) -> None:
    """Raise a usage error for columns or an order of a JSON document that is not a list of rows."""
    if path in DOCUMENTS and given.json and (given.columns or given.sort):
        name = "--columns" if given.columns else "--sort"
        raise usage_error(f"{name} and --json cannot be combined here: the document is not a list of rows")
