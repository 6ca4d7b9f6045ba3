"""Stored records: read one, walk over many (Java classes `CommitLog`, `MessageDecoder`); made are they in `codec.store.record_encoder`.

The layout is in `codec.store.record_layout`; here are the readers for the hot path. Every length is checked before anything is
cut out, and the lengths of a record must add up to its total size. Unknown magic is damage (4.9 ignores the magic when it
decodes; every record that a broker ever wrote has V1 or V2). Positions in errors are offsets in the buffer given.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, NamedTuple

from codec.compression import COMPRESSED, MAX_DECOMPRESSED
from codec.compression import decompress as decompress_body
from codec.errors import CorruptionError
from codec.hashing import crc32
from codec.ids import host_text
from codec.message import MessageExt
from codec.properties import MAX_PROPERTIES_LENGTH, decode_properties
from codec.store.record_layout import (
    BLANK_SIZE,
    HOST_BITS,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PREFIXES,
)

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED_TOGETHER = 256 * 1024 * 1024
"""Bytes that the compressed bodies of one reply may become."""

_PREFIX_V4 = PREFIXES[0]
_unpack_v4 = _PREFIX_V4.struct.unpack_from
_SIZE_V4 = _PREFIX_V4.size
_HEAD_PAIR = struct.Struct(">iI")
_LONG = struct.Struct(">q")
_BLANK_REST = (0, 0, 0, 0, 0, b"", b"")
_TOTAL_SIZE, _MAGIC, _SYS_FLAG, _BODY_LENGTH = map(
    _PREFIX_V4.names.index, ("total_size", "magic", "sys_flag", "body_length")
)
_STORE_TIMESTAMP = {bits: layout.offsets["store_timestamp"] for bits, layout in PREFIXES.items()}


class RecordHead(NamedTuple):
    """What a walk over records needs; nothing is checked but that 8 bytes are there."""

    total_size: int
    magic: int


class RecordScan(NamedTuple):
    """A checked record without its texts decoded; for a BLANK record all behind the magic is empty."""

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
    """Total size and magic, unchecked. CorruptionError when there are no 8 bytes."""
    try:
        return RecordHead._make(_HEAD_PAIR.unpack_from(buffer, position))
    except struct.error:
        raise CorruptionError("no room for a record", position) from None


def store_timestamp_at(buffer: Buffer, position: int = 0) -> int:
    """The store timestamp (ms) of the record there, nothing else of it checked. CorruptionError when it is cut short."""
    try:
        fields = _unpack_v4(buffer, position)
        offset = _STORE_TIMESTAMP[fields[_SYS_FLAG] & HOST_BITS]
        return int(_LONG.unpack_from(buffer, position + offset)[0])
    except struct.error:
        raise CorruptionError("no room for a record", position) from None


def decode_record(
    buffer: Buffer,
    position: int = 0,
    *,
    check_crc: bool = False,
    decompress: bool = False,
    limit: int = MAX_DECOMPRESSED,
) -> MessageExt:
    """The message at a position. `decompress` gives the plain body of at most `limit` bytes, the sys flag stays as stored.

    CorruptionError for anything else than a whole V1 or V2 record, and for a wrong CRC if that is asked for.
    """
    fields, body_start, body_end, topic_start, topic_end, end = _split(buffer, position, len(buffer))
    (
        size,
        _,
        crc,
        queue_id,
        flag,
        queue_offset,
        offset,
        sys_flag,
        born,
        born_host,
        stored,
        store_host,
        reconsume_times,
        prepared,
        _,
    ) = fields
    body = bytes(buffer[body_start:body_end])
    if check_crc:
        _check_crc(body, crc, position)
    if decompress and sys_flag & COMPRESSED:
        body = decompress_body(body, sys_flag, limit=limit)
    return MessageExt(
        topic=_topic_text(bytes(buffer[topic_start:topic_end])),
        queue_id=queue_id,
        queue_offset=queue_offset,
        commit_log_offset=offset,
        flag=flag,
        sys_flag=sys_flag,
        born_timestamp=born,
        born_host=host_text(born_host),
        store_timestamp=stored,
        store_host=host_text(store_host),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared,
        body_crc=crc,
        store_size=size,
        body=body,
        properties=decode_properties(bytes(buffer[topic_end + 2 : end])),
    )


def decode_records(buffer: Buffer, *, check_crc: bool = False, decompress: bool = False) -> list[MessageExt]:
    """The messages of a buffer that holds nothing else: the body of a pull, query or view reply.

    CorruptionError also when the plain bodies take more than MAX_DECOMPRESSED_TOGETHER bytes.
    """
    messages: list[MessageExt] = []
    position = 0
    end = len(buffer)
    room = MAX_DECOMPRESSED_TOGETHER
    while position < end:
        limit = min(room, MAX_DECOMPRESSED)
        message = decode_record(buffer, position, check_crc=check_crc, decompress=decompress, limit=limit)
        messages.append(message)
        position += message.store_size
        if message.sys_flag & COMPRESSED:
            room = max(room - len(message.body), 0)
    return messages


def scan_record(
    buffer: Buffer, position: int = 0, end: int | None = None, *, check_crc: bool = False
) -> RecordScan:
    """The record at a position, its texts left as bytes, checked as Java's `checkMessageAndReturnSize` does.

    A BLANK record is a RecordScan with its size, MAGIC_BLANK and nothing else. CorruptionError for zeros, an unknown magic,
    lengths that do not add up, a record that reaches behind `end` (default: the buffer's), a wrong CRC if asked for.
    """
    limit = len(buffer) if end is None else end
    size, magic = peek_record(buffer, position)
    if magic == MAGIC_BLANK:
        if not BLANK_SIZE <= size <= limit - position:
            raise CorruptionError(f"a blank record of {size} bytes", position)
        return RecordScan(size, magic, *_BLANK_REST)
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
    """Fixed fields, then where body starts and ends, topic starts and ends, the record ends. All lengths checked."""
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
    # The topic's length and the properties' length take at least three bytes more.
    if not body_start <= body_end <= end - 3 or end > limit or position < 0:
        raise CorruptionError(
            f"a record of {end - position} bytes with a body of {body_end - body_start}", position
        )
    magic = fields[_MAGIC]
    if magic == MAGIC_V1:
        topic_start, topic_length, longest = body_end + 1, buffer[body_end], 127
    elif magic == MAGIC_V2:
        topic_start, topic_length, longest = body_end + 2, buffer[body_end] << 8 | buffer[body_end + 1], 32767
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
    """Java checks no CRC of an empty body."""
    if len(body) and crc32(body) != stored:
        raise CorruptionError("the CRC of a body is wrong", position)


@lru_cache(maxsize=4096)
def _topic_text(topic: bytes) -> str:
    return str(topic, "utf-8", "replace")
