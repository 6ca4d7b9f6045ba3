"""Rows of Parquet files as messages.

Only one row group is in memory at a time, decoded a few thousand rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as t
from pyarrow import parquet

from rmqcli.export.errors import ExportError, StorageDenied, StorageUnreachable
from rmqcli.export.output.storage import storage_error
from rmqcli.grammar.times import epoch_ms
from rmqcli.import_.rows import (
    ImportFailed,
    ImportRow,
    InputDamaged,
    InputError,
    InputFile,
    with_times,
)
from rmqcli.render.message_json import message_of

BATCH_ROWS = 2048


def read_parquet(file: InputFile, topic: str) -> Iterator[ImportRow]:
    number = 0
    try:
        with file.open() as stream, parquet.ParquetFile(stream) as opened:
            columns = wanted_columns(opened.schema_arrow)
            for batch in _batches(opened, columns):
                for row in plain_rows(batch):
                    yield _of_row(file.name, number, row, topic)
                    number += 1
    except InputError as error:
        yield ImportRow(file.name, number, error)
    except (pa.ArrowException, OSError, ExportError) as error:
        yield ImportRow(file.name, number, _damage(file, error))


def _batches(file: parquet.ParquetFile, columns: list[str]) -> Iterator[Any]:
    # One iterator over all row groups would keep the bytes of each of them until the end of the file.
    for group in range(file.num_row_groups):
        yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)


def _damage(file: InputFile, error: Exception) -> InputDamaged:
    """Return the error of a file that cannot be read to its end.

    Raises the error of a storage that does not respond or refuses, because it would be the same for every
    file.
    """
    found = storage_error(file.uri, error) if file.uri and not isinstance(error, ExportError) else error
    if isinstance(found, (StorageDenied, StorageUnreachable)):
        raise found
    return InputDamaged(f"the file cannot be read further: {error}")


def _of_row(name: str, number: int, row: dict[str, Any], topic: str) -> ImportRow:
    body = row.get("body", row.get("body_text"))
    if body is None:
        return ImportRow(name, number, ImportFailed("the body is missing"))
    try:
        message = message_of(topic, body.encode() if isinstance(body, str) else body, row)
    except ValueError as error:
        return ImportRow(name, number, InputError(str(error)))
    again = with_times(message, row.get("born_timestamp"), row.get("store_timestamp"))
    return ImportRow(name, number, again, row.get("broker_name"), row.get("queue_id"))


# Columns of Parquet files, from exports and other tools, as Python values.
#
# Text is any of Arrow's string types, dictionary-encoded or not; properties are a map or struct of strings;
# times are timestamps (without a zone: UTC), epoch milliseconds, or epoch seconds (ten digits).


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
COLUMNS: Mapping[str, _Kind] = {
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
    """Return the message columns of a file. Raises InputError for a wrong type, or if the body is missing."""
    found = [name for name in COLUMNS if name in schema.names]
    if not {"body", "body_text"} & set(found):
        raise InputError("column body is missing")
    for name in found:
        _check(name, schema.field(name).type)
    return found


def _check(name: str, kind: Any) -> None:
    value = kind.value_type if t.is_dictionary(kind) else kind
    if not t.is_null(value) and not COLUMNS[name].takes(value):
        raise InputError(f"column {name} is {kind}: expected {COLUMNS[name].expected}")


def plain_rows(batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch, with times in milliseconds and without nulls."""
    columns = {name: _values(batch[name], COLUMNS[name]) for name in batch.schema.names}
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
