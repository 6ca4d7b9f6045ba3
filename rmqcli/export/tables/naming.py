"""Names of tables on the command line: `delta:URI`, `iceberg:CATALOG.NAME`, also with `{topic}` in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from rmqcli.export.errors import TableMismatch
from rmqcli.export.output.storage import location
from rmqcli.grammar.values import local_path

if TYPE_CHECKING:
    from rmqcli.export.tables.quarantine import Quarantine
    from rmqcli.export.tables.table import Table

PACKAGES: Mapping[str, str] = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""Formats, and the packages that they require."""


def format_of(name: str, option: str = "--table") -> str:
    """Return the format of a table name.

    Raises TableMismatch unless a name begins with a format and continues.
    """
    kind, separator, rest = name.partition(":")
    if kind not in PACKAGES or not separator or not rest:
        raise TableMismatch(f"{option} {name}: expected delta:URI or iceberg:CATALOG.NAMESPACE.NAME")
    return kind


def is_folder(name: str) -> bool:
    """Return True if a name is a path on this machine or in object storage, not that of a table."""
    return name.partition(":")[0] not in PACKAGES


def quarantine_of(name: str) -> Quarantine:
    """Return the quarantine of a name. Raises TableMismatch and GrammarError."""
    from rmqcli.export.tables.quarantine import FolderTable, Quarantine

    if is_folder(name):
        out = location("--quarantine", name)
        return Quarantine(FolderTable(out), str(out.resolve() if isinstance(out, Path) else out))
    kind, rest = format_of(name, "--quarantine"), name.partition(":")[2]
    if kind == "delta" and ("://" not in rest or rest.startswith("file:")):
        rest = str(local_path(rest).resolve())
    return Quarantine(table_of(name), f"{kind}:{rest}")


def table_of(name: str, by: str = "day") -> Table:
    """Return a table, partitioned by topic and by day or hour."""
    kind, rest = format_of(name), name.partition(":")[2]
    if kind == "iceberg":
        from rmqcli.export.tables.iceberg import IcebergTable

        return IcebergTable(rest, by)
    from rmqcli.export.tables.delta import DeltaTable

    return DeltaTable(rest, by)


def name_for(name: str, topic: str) -> str:
    """Return the name of the table of a topic, which replaces `{topic}`.

    In a URI, the percent signs of a topic are escaped.
    """
    return name.replace("{topic}", quote(topic, safe="") if "://" in name else topic)
