"""The schema of a table, which changes only by columns that are added."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from rmqcli.export.errors import TableMismatch
from rmqcli.export.output.layout import Layout

NEEDED = ("topic", "store_timestamp")
"""The columns that partitions come from."""


def columns(layout: Layout) -> Any:
    """Return the fields of the rows of a table, with the topic also if files leave it out."""
    return pa.schema([field for field in layout.every() if field.name in {*layout.names, *NEEDED}])


def needed(layout: Layout) -> Layout:
    """Return the layout with the columns that partitions come from."""
    if layout.columns is None:
        return layout
    return replace(layout, columns=tuple(dict.fromkeys((*layout.columns, *NEEDED))))


def added_fields(there: Any, wanted: Any, table: str) -> list[Any]:
    """Return the fields that an export adds to a table.

    Raises TableMismatch for a column of another type, and for one that every row must have but the rows of
    the export lack.
    """
    known = {field.name: field for field in there}
    for field in wanted:
        if field.name in known and plain(known[field.name].type) != plain(field.type):
            raise TableMismatch(
                f"{table}: column {field.name} is {plain(known[field.name].type)} and would become "
                f"{plain(field.type)}; columns are only added, so name a new table"
            )
    for field in there:
        if not field.nullable and field.name not in wanted.names:
            raise TableMismatch(
                f"{table}: column {field.name} must not be null, and the export has no such column; name a new table"
            )
    return [field for field in wanted if field.name not in known]


def require_partitions(there: list[str], wanted: list[str], table: str) -> None:
    if there != wanted:
        raise TableMismatch(
            f"{table}: is partitioned by {', '.join(there) or 'nothing'}, not by {', '.join(wanted)}; "
            "name a new table"
        )


def plain(kind: Any) -> str:
    """Return the name of a type; its sizes and encodings in memory do not count."""
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return plain(kind.value_type)
    if kinds.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {plain(field.type)}' for field in kind)}>"
    if kinds.is_map(kind):
        return f"map<{plain(kind.key_type)}, {plain(kind.item_type)}>"
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_list_view(kind):
        return f"list<{plain(kind.value_type)}>"
    if kinds.is_timestamp(kind):
        return f"timestamp[{kind.unit}, UTC]" if kind.tz else f"timestamp[{kind.unit}]"
    return str(kind).removeprefix("large_").removesuffix("_view")
