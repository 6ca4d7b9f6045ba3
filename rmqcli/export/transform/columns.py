"""Types of columns that grow: schemas that change, and arrays in the type of a table.

A type grows only by fields, including those in structs within lists and maps. A field of another type is a
conflict, and so is a missing field that every earlier schema required: readers of the table rely on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as t

from rmqcli.export.transform.masking import list_of


class TypeConflict(Exception):
    """A field cannot have two types. The message names the field and both types."""


def merged(there: Any, given: Any, place: str) -> Any:
    """Return the type with the fields of both, those of `there` first. Raises TypeConflict."""
    there, given = canonical(there), canonical(given)
    if t.is_struct(there) and t.is_struct(given):
        kinds = {field.name: field.type for field in there}
        for field in given:
            known = kinds.get(field.name)
            inner = field.type if known is None else merged(known, field.type, f"{place}.{field.name}")
            kinds[field.name] = inner
        return pa.struct(list(kinds.items()))
    if t.is_list(there) and t.is_list(given):
        return pa.list_(merged(there.value_type, given.value_type, place))
    if t.is_map(there) and t.is_map(given) and there.key_type == given.key_type:
        return pa.map_(there.key_type, merged(there.item_type, given.item_type, place))
    if there != given:
        raise TypeConflict(f"{place} is {plain(there)} and would become {plain(given)}")
    return there


def canonical(kind: Any) -> Any:
    """Return a type without the sizes and encodings that it has in memory, and with nullable fields."""
    if t.is_dictionary(kind):
        return canonical(kind.value_type)
    if t.is_struct(kind):
        return pa.struct([(field.name, canonical(field.type)) for field in kind])
    if t.is_map(kind):
        return pa.map_(canonical(kind.key_type), canonical(kind.item_type))
    if t.is_list(kind) or t.is_large_list(kind) or t.is_list_view(kind):
        return pa.list_(canonical(kind.value_type))
    if t.is_timestamp(kind) and kind.tz:
        return pa.timestamp(kind.unit, "UTC")
    return _LEAVES.get(kind, kind)


_LEAVES = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def plain(kind: Any) -> str:
    """Return the name of a canonical type."""
    if t.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {plain(field.type)}' for field in kind)}>"
    if t.is_map(kind):
        return f"map<{plain(kind.key_type)}, {plain(kind.item_type)}>"
    if t.is_list(kind):
        return f"list<{plain(kind.value_type)}>"
    return str(kind)


def paths(kind: Any, *, required: bool = False, above: str = "") -> Iterator[str]:
    """Yield the paths of the fields in a struct, including lists and maps; with `required`, only of those
    that are not nullable.
    """
    if t.is_struct(kind):
        for field in kind:
            if not (required and field.nullable):
                yield f"{above}{field.name}"
            yield from paths(field.type, required=required, above=f"{above}{field.name}.")
    elif t.is_list(kind):
        yield from paths(kind.value_type, required=required, above=above)
    elif t.is_map(kind):
        yield from paths(kind.item_type, required=required, above=above)


def fit(column: Any, kind: Any) -> Any:
    """Return an array in a type that `merged` made of its own: fields that it lacks are null."""
    if column.type == kind:
        return column
    if t.is_struct(kind):
        parts = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
        found = [
            fit(parts[field.name], field.type) if field.name in parts else pa.nulls(len(column), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(found, fields=list(kind), mask=column.is_null())
    if t.is_list(kind):
        return list_of(column, fit(column.values, kind.value_type))
    if t.is_map(kind):
        whole = pa.concat_arrays([column])
        return pa.MapArray.from_arrays(
            whole.offsets, whole.keys, fit(whole.items, kind.item_type), mask=whole.is_null()
        )
    return column.cast(kind)
