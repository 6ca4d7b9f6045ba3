"""Readers of stored records (Java classes `CommitLog`, `MessageDecoder`).

Every length is checked before anything is cut out, and the lengths of a record must add up to its total
size. An unknown magic is damage; 4.9 ignores the magic when it decodes, but every broker writes V1 or V2.
Positions in errors are offsets in the given buffer.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from msgspec.structs import force_setattr

from codec.compression import COMPRESSED
from codec.compression import decompress as decompress_body
from codec.core.hashing import crc32
from codec.core.record import RecordReader, read_messages
from codec.errors import CorruptionError
from codec.layout import Buffer
from codec.message import MessageExt
from codec.properties import MAX_PROPERTIES_LENGTH
from codec.store.record_layout import (
    HEAD,
    HOST_BITS,
    LONGEST_TOPIC_V1,
    LONGEST_TOPIC_V2,
    MAGIC_FILLER,
    MAGIC_V1,
    MAGIC_V2,
    PREFIXES,
)

_PREFIX_V4 = PREFIXES[0]
_unpack_v4 = _PREFIX_V4.struct.unpack_from
_SIZE_V4 = _PREFIX_V4.size
_unpack_head = HEAD.unpack_from
_unpack_store_timestamp = _PREFIX_V4.part("store_timestamp").unpack_from
_FILLER_REST = (0, 0, 0, 0, 0, b"", b"")
_TOTAL_SIZE, _MAGIC, _SYS_FLAG, _BODY_LENGTH = map(
    _PREFIX_V4.names.index, ("total_size", "magic", "sys_flag", "body_length")
)
_STORE_TIMESTAMP = {bits: layout.offsets["store_timestamp"] for bits, layout in PREFIXES.items()}


class RecordHead(NamedTuple):
    """The size and magic of a record, unchecked."""

    total_size: int
    magic: int


class RecordScan(NamedTuple):
    """A checked record with its texts as bytes; a filler record has only its size and magic."""

    total_size: int
    magic: int
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    store_timestamp: int
    topic: bytes
    properties: bytes


def peek_record(buffer: Buffer, position: int = 0) -> RecordHead:
    """The total size and magic, unchecked. Raises CorruptionError when fewer than 8 bytes are left."""
    try:
        return RecordHead._make(_unpack_head(buffer, position))
    except struct.error:
        raise CorruptionError("no room for a record", position) from None


def store_timestamp_at(buffer: Buffer, position: int = 0) -> int:
    """A record's store timestamp (ms), unchecked. Raises CorruptionError when it is cut short."""
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
    """Decodes the message at a position. With `decompress` the body is plain; the sys flag stays as stored.

    Raises CorruptionError for anything but a whole V1 or V2 record, and with `check_crc` for a wrong CRC.
    """
    data, at = buffer, position
    if not isinstance(data, bytes):  # its lengths are checked before it is copied
        data, at = bytes(buffer[position : _split(buffer, position, len(buffer))[-1]]), 0
    reader = RecordReader()
    reader.read(data, at, len(data))
    if check_crc:
        reader.check_crc(data, position - at)
    message = reader.message(data, "")
    if decompress and message.sys_flag & COMPRESSED:
        force_setattr(message, "body", decompress_body(message.body, message.sys_flag))
    return message


def decode_records(buffer: Buffer, broker_name: str = "", *, check_crc: bool = False) -> list[MessageExt]:
    """Return the messages in the body of a pull, query or view reply; their bodies are as stored.

    Raises what `decode_record` raises.
    """
    return read_messages(bytes(buffer), broker_name, check_crc)


def scan_record(
    buffer: Buffer, position: int = 0, end: int | None = None, *, check_crc: bool = False
) -> RecordScan:
    """Checks the record at a position as Java's `checkMessageAndReturnSize` does; its texts stay bytes.

    A filler is no more than its size and magic: nobody reads what follows, up to the end of the file.
    Raises CorruptionError for zeros, an unknown magic, lengths that do not add up, a record that extends
    past `end` (default: the end of the buffer), and with `check_crc` for a wrong CRC.
    """
    limit = len(buffer) if end is None else end
    size, magic = peek_record(buffer, position)
    if magic == MAGIC_FILLER:
        if size < HEAD.size:
            raise CorruptionError(f"a filler record of {size} bytes", position)
        return RecordScan(size, magic, *_FILLER_REST)
    fields, body_start, body_end, topic_start, topic_end, stop = _split(buffer, position, limit)
    _, _, crc, queue_id, _, queue_offset, offset, sys_flag, _, _, store_timestamp, _, _, _, _ = fields
    if check_crc:
        _check_crc(buffer[body_start:body_end], crc, position)
    topic = bytes(buffer[topic_start:topic_end])
    properties = bytes(buffer[topic_end + 2 : stop])
    return RecordScan(
        size, magic, queue_id, queue_offset, offset, sys_flag, store_timestamp, topic, properties
    )


def _split(buffer: Buffer, position: int, limit: int) -> tuple[tuple[Any, ...], int, int, int, int, int]:
    """The fixed fields, starts and ends of body and topic, and the end of a record, with all lengths
    checked."""
    try:
        fields = _unpack_v4(buffer, position)
        body_start = position + _SIZE_V4
        if fields[_SYS_FLAG] & HOST_BITS:
            wide = PREFIXES[fields[_SYS_FLAG] & HOST_BITS]
            fields = wide.struct.unpack_from(buffer, position)
            body_start = position + wide.size
    except struct.error:
        raise CorruptionError("a record is cut short", position) from None
    end = position + fields[_TOTAL_SIZE]
    body_end = body_start + fields[_BODY_LENGTH]
    # The lengths of topic and properties take at least three more bytes.
    if not body_start <= body_end <= end - 3 or end > limit or position < 0:
        raise CorruptionError(
            f"a record of {end - position} bytes with a body of {body_end - body_start}", position
        )
    magic = fields[_MAGIC]
    if magic == MAGIC_V1:
        topic_start, topic_length, longest = body_end + 1, buffer[body_end], LONGEST_TOPIC_V1
    elif magic == MAGIC_V2:
        topic_start, longest = body_end + 2, LONGEST_TOPIC_V2
        topic_length = buffer[body_end] << 8 | buffer[body_end + 1]
    else:
        raise CorruptionError(f"unknown magic {magic:08x}", position)
    topic_end = topic_start + topic_length
    if topic_length > longest or topic_end + 2 > end:
        raise CorruptionError(f"a topic of {topic_length} bytes", position)
    properties_length = buffer[topic_end] << 8 | buffer[topic_end + 1]
    if properties_length > MAX_PROPERTIES_LENGTH or topic_end + 2 + properties_length != end:
        raise CorruptionError("the lengths in a record do not add up to its size", position)
    return fields, body_start, body_end, topic_start, topic_end, end


def _check_crc(body: Buffer, stored: int, position: int) -> None:
    if len(body) and crc32(body) != stored:
        raise CorruptionError("the CRC of a body is wrong", position)
