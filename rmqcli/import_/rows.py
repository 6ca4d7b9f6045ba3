"""Rows as messages, those of JSON lines among them.

Body, flag and properties are kept, and with the properties the keys, tags and message id (UNIQ_KEY). The
times of the original become the properties ORIGINAL_BORN_TIMESTAMP and ORIGINAL_STORE_TIMESTAMP, in epoch
milliseconds, unless an earlier import has set them. Properties of the first delivery are left out, as by `rmq
send --jsonl`.

Rows are numbered from 0 in each file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rmqcli.codec.edited import BYTE_ORDER_MARK
from rmqcli.codec.message import Message
from rmqcli.codec.records.filter import condition
from rmqcli.export.output.storage import explained
from rmqcli.grammar.times import epoch_ms
from rmqcli.grammar.values import GrammarError
from rmqcli.render.message_json import BORN, STORED, message_from_json, sendable


class ImportFailed(Exception):
    """Base class. A row cannot be sent, or no attempt was made."""


class InputNotFound(ImportFailed):
    """There is no file to import."""


class InputError(ImportFailed):
    """A file, column or row is not of the expected type, or the progress file belongs to another import."""


class InputDamaged(ImportFailed):
    """A file to import cannot be read to its end."""


PARQUET = (".parquet", ".parq", ".pq")
LINES = (".jsonl", ".ndjson", ".json")
"""Suffixes of the files that can be read."""
_READ_BYTES = 1 << 20
"""The bytes of a file of lines in object storage that one request reads."""


class InputFile(NamedTuple):
    """A file to read: its name in the source, a function that opens it as a binary stream, its number of rows
    if known without opening it, and its URI if it is in object storage.
    """

    name: str
    open: Callable[[], Any]
    rows: int | None = None
    uri: str = ""

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix


def local_file(name: str, path: Path, rows: int | None = None) -> InputFile:
    return InputFile(name, partial(path.open, "rb"), rows)


class ImportRow(NamedTuple):
    """A row: its message, or the reason why there is none, and its original queue, if known."""

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


def count_rows(files: Sequence[InputFile]) -> int | None:
    """Return the number of rows, of Parquet files on this machine by their footers; None if that takes reading
    rows, or requests for each file, or if a file cannot be read.
    """
    unknown = [file for file in files if file.rows is None]
    if any(file.uri or file.suffix not in PARQUET for file in unknown):
        return None
    known = sum(file.rows for file in files if file.rows is not None)
    import pyarrow as pa
    from pyarrow import parquet

    try:
        for file in unknown:
            with file.open() as stream:
                known += parquet.read_metadata(stream).num_rows
    except (pa.ArrowException, OSError):
        return None
    return known


def read_lines(file: InputFile, topic: str) -> Iterator[ImportRow]:
    """Yield the rows of a file of JSON lines."""
    with explained(file.uri) if file.uri else nullcontext(), file.open() as stream:
        lines = io.BufferedReader(stream, _READ_BYTES) if file.uri else stream
        for number, line in enumerate(lines):
            if number == 0:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if line.strip():
                yield _of_line(file.name, number, line, topic)


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
    return ImportRow(name, number, with_times(message, born, stored), broker, _number(place.queue_id))


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _moment(value: object) -> int | None:
    number = _number(value)
    return None if number is None else epoch_ms(number)


def with_times(message: Message, born: int | None, stored: int | None) -> Message:
    times = {BORN: born, STORED: stored}
    added = {
        key: str(value) for key, value in times.items() if value is not None and key not in message.properties
    }
    return sendable(message).with_properties(added) if added else sendable(message)
