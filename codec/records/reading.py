"""Readers of stored records (Java classes `CommitLog`, `MessageDecoder`).

Every length is checked before anything is cut out, and the lengths of a record must add up to its total
size. An unknown magic is damage; 4.9 ignores the magic when it decodes, but every broker writes V1 or V2.
Positions in errors are offsets in the given buffer.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import construct
from msgspec.structs import force_setattr

from rmqcli.codec.compression import COMPRESSED
from rmqcli.codec.compression import decompress as decompress_body
from rmqcli.codec.core.record_reader import RecordReader, RecordScan, read_messages
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.layout import Buffer, FixedLayout
from rmqcli.codec.message import MessageExt
from rmqcli.codec.store.record_layout import HEAD, HOST_BITS, MAGIC_FILLER, PREFIXES, RECORD

_PREFIX_V4 = PREFIXES[0]
_unpack_v4 = _PREFIX_V4.struct.unpack_from
_unpack_head = HEAD.unpack_from
_unpack_store_timestamp = _PREFIX_V4.part("store_timestamp").unpack_from
_FILLER_REST = (0, 0, 0, 0, 0, b"", b"")
_SYS_FLAG = _PREFIX_V4.names.index("sys_flag")
_STORE_TIMESTAMP = {bits: layout.offsets["store_timestamp"] for bits, layout in PREFIXES.items()}


class RecordHead(NamedTuple):
    """The size and magic of a record, unchecked."""

    total_size: int
    magic: int


def peek_record(buffer: Buffer, position: int = 0) -> RecordHead:
    """Return the total size and magic, unchecked. Raises CorruptionError if fewer than 8 bytes are left."""
    try:
        return RecordHead._make(_unpack_head(buffer, position))
    except struct.error:
        raise CorruptionError("no room for a record", position) from None


def store_timestamp_at(buffer: Buffer, position: int = 0) -> int:
    """Return a record's store timestamp (ms), unchecked. Raises CorruptionError if it is cut short."""
    try:
        fields = _unpack_v4(buffer, position)
        offset = _STORE_TIMESTAMP[fields[_SYS_FLAG] & HOST_BITS]
        return int(_unpack_store_timestamp(buffer, position + offset)[0])
    except struct.error:
        raise CorruptionError("no room for a record", position) from None


def decode_record(
    buffer: Buffer,
    position: int = 0,
    *,
    check_crc: bool = False,
    decompress: bool = False,
) -> MessageExt:
    """Decode the message at a position. With `decompress`, its body is decompressed; the sys flag stays as
    stored.

    Raises CorruptionError for anything but a whole V1 or V2 record; with `check_crc`, also for a wrong CRC.
    """
    data, at, reader = buffer, position, RecordReader()
    if not isinstance(data, bytes):  # check the lengths before copying the record
        reader.find(buffer, position, len(buffer), False)
        data, at = bytes(buffer[position : position + peek_record(buffer, position).total_size]), 0
    reader.read(data, at, len(data))
    if check_crc:
        reader.check_crc(data, position - at)
    message = reader.message(data, "")
    if decompress and message.sys_flag & COMPRESSED:
        force_setattr(message, "body", decompress_body(message.body, message.sys_flag))
    return message


def decode_records(buffer: Buffer, broker_name: str = "", *, check_crc: bool = False) -> list[MessageExt]:
    """Return the messages in the body of a pull, query or view reply; their bodies are as stored.

    Raises the errors of `decode_record`.
    """
    return read_messages(bytes(buffer), broker_name, check_crc)


def scan_record(
    buffer: Buffer, position: int = 0, end: int | None = None, *, check_crc: bool = False
) -> RecordScan:
    """Check the record at a position as Java's `checkMessageAndReturnSize` does; its texts stay bytes.

    Only the size and magic of a filler count; the bytes after them, up to the end of the file, are never
    read. Raises CorruptionError for zeros, an unknown magic, lengths that do not add up, or a record that
    extends past `end` (default: the end of the buffer); with `check_crc`, also for a wrong CRC.
    """
    limit = len(buffer) if end is None else end
    size, magic = peek_record(buffer, position)
    if magic == MAGIC_FILLER:
        if size < HEAD.size:
            raise CorruptionError(f"a filler record of {size} bytes", position)
        return RecordScan(size, magic, *_FILLER_REST)
    reader = RecordReader()
    return reader.scan(reader.find(buffer, position, limit, check_crc), size)


# Fields of a stored record with their bytes. They are read with the declaration: slowly, and as far as
# possible.

LONGEST_FIELD = 64 * 1024 * 1024


class ExplainedField(NamedTuple):
    """A field of a record. `offset` counts from the start of the record; `value` is a number, or bytes for
    hosts and texts.
    """

    name: str
    offset: int
    data: bytes
    value: int | bytes


class Explanation(NamedTuple):
    """The fields of a record. `problem` is the reason why they end early, or None for a whole record."""

    fields: list[ExplainedField]
    problem: str | None


def explain_record(buffer: Buffer, position: int = 0) -> Explanation:
    """Explain a record up to the first impossible field. Raises CorruptionError if there are fewer than 8
    bytes.
    """
    declaration = HEAD.declaration if peek_record(buffer, position).magic == MAGIC_FILLER else RECORD
    fields: list[ExplainedField] = []
    known: dict[str, Any] = {}
    offset = 0
    view = memoryview(buffer)
    for part in declaration.subcons:
        try:
            size = _size(part, known)
            data = bytes(view[position + offset : position + offset + size])
            value = part.parse(data, **known)
        except construct.CheckError:
            return Explanation(fields, f"the fields up to byte {offset} contradict each other")
        except (construct.ConstructError, CorruptionError) as error:
            return Explanation(fields, f"{part.name} at byte {offset}: {str(error).splitlines()[0]}")
        if part.name:
            known[part.name] = value
            fields.append(ExplainedField(part.name, offset, data, value))
            offset += size
    return Explanation(fields, None)


def explain_fixed(layout: FixedLayout, buffer: Buffer, position: int = 0) -> list[ExplainedField]:
    """Explain a layout of fixed size. Raises CorruptionError if the buffer is too short."""
    data = bytes(buffer[position : position + layout.size])
    if len(data) < layout.size:
        raise CorruptionError(f"{len(data)} bytes where {layout.size} are needed", position)
    return [
        ExplainedField(field.name, field.offset, data[field.offset :][: field.size], value)
        for field, value in zip(layout.fields, layout.unpack(data), strict=True)
    ]


def _size(part: Any, known: dict[str, Any]) -> int:
    size = int(part.sizeof(**known)) if part.name else 0
    if not 0 <= size <= LONGEST_FIELD:
        raise CorruptionError(f"a field of {size} bytes")
    return size
