"""Arrow columns of lists and structs with other values inside: nulls stay where they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa


def list_of(column: Any, values: Any) -> Any:
    """Return a list column with other `values`, which are as many. Columns that are slices keep their
    offsets.
    """
    if not column.null_count:
        return pa.ListArray.from_arrays(column.offsets, values)
    whole = pa.concat_arrays([column])  # a mask needs offsets from 0
    begin = column.offsets[0].as_py()
    part = values.slice(begin, len(whole.values))
    return pa.ListArray.from_arrays(whole.offsets, part, mask=whole.is_null())


def struct_of(column: Any, parts: Sequence[Any]) -> Any:
    """Return a struct column with other fields of the same names."""
    fields = [pa.field(field.name, part.type) for field, part in zip(column.type, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())


def on_leaves(column: Any, change: Callable[[Any, Any], Any], kind: Any) -> Any:
    """Return a column of type `kind`: each leaf is what `change` makes of it and its type there."""
    if pa.types.is_struct(kind):
        parts = [
            on_leaves(part, change, field.type) for part, field in zip(column.flatten(), kind, strict=True)
        ]
        return struct_of(column, parts)
    if pa.types.is_list(kind):
        return list_of(column, on_leaves(column.values, change, kind.value_type))
    return change(column, kind)
