"""Rows of Parquet files and JSON lines as messages.

Body, flag and properties are kept, and with the properties the keys, tags and message id (UNIQ_KEY). The
times of the original become the properties ORIGINAL_BORN_TIMESTAMP and ORIGINAL_STORE_TIMESTAMP, in epoch
milliseconds, unless an earlier import has set them. Properties of the first delivery are left out, as by `rmq
send --jsonl`.

Rows are numbered from 0 in each file. One row group of one file is in memory, decoded a few thousand rows at
a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.types as t

from rmqcli.codec.edited import BYTE_ORDER_MARK
from rmqcli.codec.message import Message
from rmqcli.codec.records.filter import condition
from rmqcli.export.output.folder import JOURNAL
from rmqcli.export.output.manifest import MANIFEST, Manifest, books_of, read_json
from rmqcli.grammar.offset_range import epoch_ms
from rmqcli.grammar.values import GrammarError
from rmqcli.render.message_json import BORN, STORED, message_from_json, message_of, sendable


class ImportFailed(Exception):
    """Base class. A row cannot be sent, or no attempt was made."""


class InputNotFound(ImportFailed):
    """There is no file to import."""


class InputError(ImportFailed):
    """A file, column or row is not of the expected type, or the progress file belongs to another import."""


class InputDamaged(ImportFailed):
    """A file to import cannot be read to its end."""


BATCH_ROWS = 2048

_PARQUET = (".parquet", ".parq", ".pq")
_LINES = (".jsonl", ".ndjson", ".json")


class ImportRow(NamedTuple):
    """A row: its message, or the reason why there is none, and the queue it came from, if known."""

    file: str
    number: int
    message: Message | Exception
    broker_name: str | None = None
    queue_id: int | None = None


_OF_ROWS: Mapping[str, Callable[[ImportRow, Message], Any]] = {
    "broker_name": lambda row, message: row.broker_name,
    "queue_id": lambda row, message: row.queue_id,
    "tags": lambda row, message: message.tags,
    "keys": lambda row, message: " ".join(message.keys) or None,
    "msg_id": lambda row, message: message.uniq_key,
    "flag": lambda row, message: message.flag,
    "body_size": lambda row, message: len(message.body),
    "born_timestamp": lambda row, message: message.properties.get(BORN),
    "store_timestamp": lambda row, message: message.properties.get(STORED),
}
"""Columns that a condition may name, besides properties."""


def row_test(where: str) -> Callable[[ImportRow], bool]:
    """Return a test of rows by a SQL92 condition over columns and properties; rows without a message pass it.

    Raises SelectorError if the condition is invalid.
    """
    predicate = condition(where)
    columns = [name for name in predicate.names if name in _OF_ROWS]

    def test(row: ImportRow) -> bool:
        message = row.message
        if isinstance(message, Exception):
            return True
        values = {name: _OF_ROWS[name](row, message) for name in columns}
        properties = {name: value for name, value in message.properties.items() if name not in values}
        named = {name: str(value) for name, value in values.items() if value is not None}
        return predicate.matches(properties | named)

    return test


def import_files(path: Path) -> list[tuple[str, Path]]:
    """Return the files to read, with names relative to `path`, in the order of the manifest, or sorted.

    As for all readers of Parquet, names that start with `_` or `.` are not data. Raises InputNotFound if
    there are none.
    """
    if not path.is_dir():
        if not path.exists():
            raise InputNotFound(f"{path}: no such file or folder")
        return [(path.name, path)]
    names = sorted(
        str(file.relative_to(path)) for file in path.rglob("*") if file.is_file() and _is_data(file, path)
    )
    if not names:
        raise InputNotFound(f"{path}: no .parquet or .jsonl file is in this folder")
    if (books_of(path) / JOURNAL).exists():
        raise InputError(
            f"{path}: a commit is not complete, so rows may be missing or there twice; "
            "complete it with `rmq compact` or `rmq export --resume`"
        )
    order = {name: place for place, name in enumerate(listed_files(path) or ())}
    names.sort(key=lambda name: order.get(name, len(order)))
    return [(name, path / name) for name in names]


def listed_files(path: Path) -> list[str] | None:
    """Return the names of the files of an export, also of those that the user removed; None if it is none."""
    listed: Manifest | None = read_json(books_of(path) / MANIFEST, Manifest)
    return None if listed is None else [file.path for file in listed.files]


def _is_data(file: Path, root: Path) -> bool:
    hidden = any(part.startswith(("_", ".")) for part in file.relative_to(root).parts)
    return not hidden and file.suffix in (*_PARQUET, *_LINES)


def count_rows(files: Sequence[tuple[str, Path]]) -> int | None:
    """Return the number of rows according to the footers; None if a file has lines, or cannot be read."""
    if any(path.suffix not in _PARQUET for _, path in files):
        return None
    import pyarrow as pa
    from pyarrow import parquet

    try:
        counts: list[int] = [parquet.read_metadata(path).num_rows for _, path in files]
        return sum(counts)
    except (pa.ArrowException, OSError):
        return None


def read_rows(name: str, path: Path, topic: str) -> Iterator[ImportRow]:
    """Yield the rows of a file, for `topic`.

    If the file cannot be read to its end, the last row has the error.

    Raises InputError if its name is not that of a Parquet or JSON-lines file.
    """
    if path.suffix in _LINES:
        return _read_lines(name, path, topic)
    if path.suffix in _PARQUET:
        return _read_parquet(name, path, topic)
    raise InputError(f"{path}: expected a .parquet or .jsonl file")


def _read_lines(name: str, path: Path, topic: str) -> Iterator[ImportRow]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines):
            if number == 0:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if line.strip():
                yield _of_line(name, number, line, topic)


class _Place(msgspec.Struct, rename="camel"):
    """Other fields of a line. They may be of any type, since lines may be written by hand."""

    broker_name: Any = None
    queue_id: Any = None
    born_timestamp: Any = None
    store_timestamp: Any = None


_place = msgspec.json.Decoder(_Place).decode


def _of_line(name: str, number: int, line: bytes, topic: str) -> ImportRow:
    try:
        message = message_from_json(line, topic)
    except GrammarError as error:
        return ImportRow(name, number, error)
    place = _place(line)
    born, stored = (_moment(value) for value in (place.born_timestamp, place.store_timestamp))
    broker = place.broker_name if isinstance(place.broker_name, str) else None
    return ImportRow(name, number, _again(message, born, stored), broker, _number(place.queue_id))


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _moment(value: object) -> int | None:
    number = _number(value)
    return None if number is None else epoch_ms(number)


def _again(message: Message, born: int | None, stored: int | None) -> Message:
    times = {BORN: born, STORED: stored}
    added = {
        key: str(value) for key, value in times.items() if value is not None and key not in message.properties
    }
    return sendable(message).with_properties(added) if added else sendable(message)


def _read_parquet(name: str, path: Path, topic: str) -> Iterator[ImportRow]:
    import pyarrow as pa
    from pyarrow import parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            columns = wanted_columns(file.schema_arrow)
            for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                for row in plain_rows(batch):
                    yield _of_row(name, number, row, topic)
                    number += 1
    except InputError as error:
        yield ImportRow(name, number, error)
    except (pa.ArrowException, OSError) as error:
        reason = f"the file cannot be read further: {error}"
        yield ImportRow(name, number, InputDamaged(reason))


def _of_row(name: str, number: int, row: dict[str, Any], topic: str) -> ImportRow:
    body = row.get("body", row.get("body_text"))
    if body is None:
        return ImportRow(name, number, ImportFailed("the body is missing"))
    try:
        message = message_of(topic, body.encode() if isinstance(body, str) else body, row)
    except ValueError as error:
        return ImportRow(name, number, InputError(str(error)))
    again = _again(message, row.get("born_timestamp"), row.get("store_timestamp"))
    return ImportRow(name, number, again, row.get("broker_name"), row.get("queue_id"))


# Columns of Parquet files, from exports and other tools, as Python values.
#
# Text is any of Arrow's string types, dictionary-encoded or not; properties are a map of texts or a struct of
# them; times are timestamps (without a zone: UTC), epoch milliseconds, or epoch seconds (ten digits).


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
