"""Columns of Parquet files, from exports and other tools, as Python values.

Text is any of Arrow's string types, dictionary-encoded or not; properties are a map of texts or a struct of
them; times are timestamps (without a zone: UTC), epoch milliseconds, or epoch seconds (ten digits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as t

from rmqcli.grammar.offset_range import epoch_ms
from rmqcli.import_.errors import InputError


class _Kind(NamedTuple):
    takes: Callable[[Any], bool]
    expected: str


def _is_text(kind: Any) -> bool:
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))


def _is_body(kind: Any) -> bool:
    checks = (t.is_binary, t.is_large_binary, t.is_binary_view, t.is_fixed_size_binary, _is_text)
    return any(check(kind) for check in checks)


def _is_keys(kind: Any) -> bool:
    return _is_text(kind) or (bool(t.is_list(kind) or t.is_large_list(kind)) and _is_text(kind.value_type))


def _is_map(kind: Any) -> bool:
    if t.is_map(kind):
        return _is_text(kind.key_type) and _is_text(kind.item_type)
    return bool(t.is_struct(kind)) and all(_is_text(field.type) or t.is_null(field.type) for field in kind)


_TEXT = _Kind(_is_text, "text")
_NUMBER = _Kind(t.is_integer, "a whole number")
_MOMENT = _Kind(lambda kind: t.is_timestamp(kind) or t.is_integer(kind), "a timestamp or epoch milliseconds")
_COLUMNS: Mapping[str, _Kind] = {
    "body": _Kind(_is_body, "bytes or text"),
    "body_text": _TEXT,
    "properties": _Kind(_is_map, "a map or struct of texts"),
    "tags": _TEXT,
    "keys": _Kind(_is_keys, "text or a list of texts"),
    "flag": _NUMBER,
    "broker_name": _TEXT,
    "queue_id": _NUMBER,
    "born_timestamp": _MOMENT,
    "store_timestamp": _MOMENT,
}


def wanted_columns(schema: Any) -> list[str]:
    """Return a file's message columns; InputError for a wrong type, or when the body is missing."""
    found = [name for name in _COLUMNS if name in schema.names]
    if not {"body", "body_text"} & set(found):
        raise InputError("column body is missing")
    for name in found:
        _check(name, schema.field(name).type)
    return found


def _check(name: str, kind: Any) -> None:
    value = kind.value_type if t.is_dictionary(kind) else kind
    if not t.is_null(value) and not _COLUMNS[name].takes(value):
        raise InputError(f"column {name} is {kind}: expected {_COLUMNS[name].expected}")


def plain_rows(batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch, times in milliseconds, without nulls."""
    columns = {name: _values(batch[name], _COLUMNS[name]) for name in batch.schema.names}
    for values in zip(*columns.values(), strict=True):
        yield {name: value for name, value in zip(columns, values, strict=True) if value is not None}


def _values(column: Any, kind: _Kind) -> list[Any]:
    if t.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    elif kind is _MOMENT:
        return [None if value is None else epoch_ms(value) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    if t.is_map(column.type) or t.is_struct(column.type):
        return [None if value is None else _without_nulls(value) for value in values]
    return values


def _without_nulls(properties: Any) -> dict[str, str]:
    return {name: value for name, value in dict(properties).items() if value is not None}
