"""Rows of Parquet files and JSON lines as messages.

Body, flag and properties are kept, and with these keys, tags and the message id (UNIQ_KEY). The times of the
original become the properties ORIGINAL_BORN_TIMESTAMP and ORIGINAL_STORE_TIMESTAMP, epoch milliseconds,
unless an earlier import has set them. Properties of the first delivery are left out, as by `rmq send
--jsonl`.

Rows are numbered from 0 in each file. Memory holds one row group of one file, decoded a few thousand rows at
a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from codec.edited import BYTE_ORDER_MARK
from codec.message import Message
from rmqcli.export.output.manifest import MANIFEST, Manifest, books_of, read_json
from rmqcli.grammar.errors import GrammarError
from rmqcli.grammar.offset_range import epoch_ms
from rmqcli.import_.errors import ImportFailed, InputDamaged, InputError, InputNotFound
from rmqcli.render.message_json import message_from_json, message_of, sendable

BORN = "ORIGINAL_BORN_TIMESTAMP"
STORED = "ORIGINAL_STORE_TIMESTAMP"
BATCH_ROWS = 2048

_PARQUET = (".parquet", ".parq", ".pq")
_LINES = (".jsonl", ".ndjson", ".json")


class ImportRow(NamedTuple):
    """A row: its message, or why there is none; and the queue it came from, if known."""

    file: str
    number: int
    message: Message | Exception
    broker_name: str | None = None
    queue_id: int | None = None


def import_files(path: Path) -> list[tuple[str, Path]]:
    """Return the files to read with their names below `path`, in the order of the manifest, else sorted.

    Names that start with `_` or `.` are not data, as for all readers of Parquet. Raises InputNotFound when
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
    listed: Manifest | None = read_json(books_of(path) / MANIFEST, Manifest)
    order = {file.path: place for place, file in enumerate(listed.files if listed else [])}
    names.sort(key=lambda name: order.get(name, len(order)))
    return [(name, path / name) for name in names]


def _is_data(file: Path, root: Path) -> bool:
    hidden = any(part.startswith(("_", ".")) for part in file.relative_to(root).parts)
    return not hidden and file.suffix in (*_PARQUET, *_LINES)


def count_rows(files: Sequence[tuple[str, Path]]) -> int | None:
    """Return the number of rows by the footers; None if a file has lines, or cannot be read."""
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
    """Yield the rows of a file, for `topic`; a last one holds the error that kept it from its end.

    Raises InputError if its name is not one of a Parquet or JSON-lines file.
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
    """Other fields of a line, of any type, since lines may be written by hand."""

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

    from rmqcli.import_.columns import plain_rows, wanted_columns

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
