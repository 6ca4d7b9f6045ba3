"""The result of a statement, which arrives in batches: its values, displayed or saved as a Parquet file."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import parquet

from rmqcli import files
from rmqcli.export.output.storage import Location
from rmqcli.render.output import json_line

# Values of a result as strings, numbers, lists and objects, the same for tables, lines and JSON.
#
# Times are ISO 8601, those with a zone in UTC. Bytes are text, with bytes that are not UTF-8 written \xNN. A
# decimal is a number if a float can hold it, otherwise a string. Maps and structs are objects.

_MILLISECONDS = re.compile(r"(\.\d{3})000(?=\D|$)")


def rows_of(batch: Any, *, lines: bool = False) -> Iterator[Sequence[Any]]:
    """Yield the rows of a record batch. For tables and `lines`, objects and nested lists become JSON."""
    return zip(*(_values(column, lines) for column in batch.columns), strict=True)


def is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _values(column: Any, lines: bool) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        # Arrow's texts cover all times; Python's end with the year 9999, before DuckDB's infinity.
        return [text and _moment(text) for text in column.cast(pa.string()).to_pylist()]
    values: list[Any] = column.to_pylist()
    read = _reader(column.type)
    if read is _same:
        return values
    if lines and _is_nested(column.type):
        return [None if value is None else json_line(read(value)).decode() for value in values]
    return [None if value is None else read(value) for value in values]


def _is_nested(kind: Any) -> bool:
    inner = getattr(kind, "value_type", None)
    if pa.types.is_map(kind) or pa.types.is_struct(kind):
        return True
    return inner is not None and (_is_nested(inner) or hasattr(inner, "value_type"))


def _moment(text: str) -> str:
    if text.startswith("<"):  # Arrow's text for a value without a date
        return "-infinity" if ": -" in text else "infinity"
    return _MILLISECONDS.sub(r"\1", text.replace(" ", "T", 1))


def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return the conversion of values of an Arrow type; `_same` if none is needed."""
    if any(is_one(kind) for is_one in _PLAIN):
        return _same
    if pa.types.is_map(kind):
        key, item = _inner(kind.key_type), _inner(kind.item_type)
        return lambda pairs: {str(key(name)): item(value) for name, value in pairs}
    if pa.types.is_struct(kind):
        members = {field.name: _inner(field.type) for field in kind}
        return lambda value: {name: read(value[name]) for name, read in members.items()}
    if hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        item = _inner(kind.value_type)
        return lambda values: [item(value) for value in values]
    return _plain


def _inner(kind: Any) -> Callable[[Any], Any]:
    read = _reader(kind)
    return read if read is _same else lambda value: None if value is None else read(value)


def _plain(value: Any) -> Any:
    show = next((show for kind, show in _SHOWN if isinstance(value, kind)), str)
    return show(value)


def _same(value: Any) -> Any:
    return value


def _number(value: Decimal) -> int | float | str:
    if value == value.to_integral_value():
        return int(value) if abs(value) < 1 << 63 else str(int(value))
    return float(value) if Decimal(repr(float(value))) == value else str(value)


def _interval(value: Any) -> str:
    seconds = f"{value.nanoseconds / 1e9:.9f}".rstrip("0").rstrip(".")
    return f"P{value.months}M{value.days}DT{seconds}S"


_PLAIN = (
    pa.types.is_string,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_null,
)
_SHOWN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, _same),
    (bool, _same),
    (int, _same),
    (float, _same),
    (bytes, lambda value: value.decode("utf-8", "backslashreplace")),
    (Decimal, _number),
    (datetime, lambda value: _moment(str(value).replace("+00:00", "Z"))),
    (date, str),
    (time, str),
    (pa.MonthDayNano, _interval),
)


class Result:
    """The rows of a statement, which can be read once.

    Columns of the same name are distinguished by numbers.
    """

    def __init__(self, schema: Any, batches: Iterator[Any]) -> None:
        names = _told_apart(schema.names)
        self.schema = pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
        self.begun = False
        self._batches = batches

    def batches(self) -> Iterator[Any]:
        """Yield record batches of at most `engine.BATCH_ROWS` rows."""
        for batch in self._batches:
            self.begun = True
            yield batch.rename_columns(self.schema.names)

    def rows(self, *, lines: bool = False) -> Iterator[Sequence[Any]]:
        """Yield rows of values as they are displayed: in JSON, or in tables and `lines`."""
        for batch in self.batches():
            yield from rows_of(batch, lines=lines)


Show: TypeAlias = Callable[[Result], None]


def _told_apart(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        number, own = 1, name
        while own in found:
            own, number = f"{name}_{number}", number + 1
        found.append(own)
    return found


ROW_GROUP_BYTES = 1 << 26
"""The bytes of rows that are gathered for a row group."""


def refuse_existing(out: Location, *, replace: bool) -> None:
    """Raise an OSError, or StorageError, if the file must not be replaced, or cannot be created there."""
    if isinstance(out, Path):
        files.refuse_existing(out, replace=replace)
    elif out.name in out.parent.names() and not replace:
        raise FileExistsError(errno.EEXIST, "exists; --replace overwrites it", str(out))


def save(out: Location, result: Result) -> tuple[int, int]:
    """Write the rows, batch by batch. Return their number and the size of the file in bytes.

    After an error, an older file is unchanged, and no other file is left.
    """
    rows = 0
    begun = files.replacing(out) if isinstance(out, Path) else out.replacing()
    with begun as file, parquet.ParquetWriter(file, result.schema, compression="zstd") as writer:
        for table in _row_groups(result):
            writer.write_table(table, row_group_size=table.num_rows)
            rows += table.num_rows
    return rows, out.stat().st_size if isinstance(out, Path) else out.parent.size(out.name)


def _row_groups(result: Result) -> Iterator[Any]:
    gathered: list[Any] = []
    size = 0
    for batch in result.batches():
        gathered.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)
