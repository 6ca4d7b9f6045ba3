"""The body of a batch send (code 320): messages of one topic, one after the other (Java class
`MessageDecoder`).

The broker makes a record of each. An item has no topic, magic or CRC, and is never compressed by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import construct
from construct import Bytes, Check, Int16sb, Int32sb, this

from codec.errors import BodyError, LocalProtocolError
from codec.layout import Buffer, fused
from codec.message import Message
from codec.properties import encode_properties

HEAD = fused(
    construct.Struct(
        "total_size" / Int32sb,
        "magic" / Int32sb,
        "body_crc" / Int32sb,
        "flag" / Int32sb,
        "body_length" / Int32sb,
    )
)
BATCH_ITEM = construct.Struct(
    *HEAD.declaration.subcons,
    "body" / Bytes(this.body_length),
    "properties_length" / Int16sb,
    "properties" / Bytes(this.properties_length),
    Check(lambda item: item.total_size == HEAD.size + 2 + item.body_length + item.properties_length),
)
_SHORT = struct.Struct(">h")
_HEAD_SIZE = HEAD.size
SMALLEST_ITEM = HEAD.size + _SHORT.size
"""Bytes of an item without body and properties."""
_read_head = HEAD.unpack_from
_read_short = _SHORT.unpack_from
_read_total = HEAD.part("total_size").unpack_from


class BatchItem(NamedTuple):
    """One message of a batch body; `properties` is the encoded text."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(messages: Iterable[Message]) -> bytes:
    """Encodes messages without their topics. Raises LocalProtocolError for properties over 32,767 bytes."""
    parts: list[bytes] = []
    for message in messages:
        properties = encode_properties(message.properties)
        total = HEAD.size + len(message.body) + 2 + len(properties)
        try:
            parts.append(HEAD.pack(total, 0, 0, message.flag, len(message.body)))
        except struct.error as error:
            raise LocalProtocolError(f"a number does not fit the batch: {error}") from None
        parts += (message.body, _SHORT.pack(len(properties)), properties)
    return b"".join(parts)


def decode_batch(data: Buffer) -> list[BatchItem]:
    """The items of a batch body; magic and CRC are ignored, as in Java. Raises BodyError for an incomplete
    item."""
    return [BatchItem(*item) for item in walk_batch(data)]


def count_batch(data: Buffer) -> Iterator[int]:
    """The number of items so far, after each: far quicker than to decode them. Raises BodyError."""
    position = number = 0
    while position < len(data):
        try:
            total = _read_total(data, position)[0]
        except struct.error:
            raise BodyError(f"batch item at {position} is cut short") from None
        if total < HEAD.size + _SHORT.size:
            raise BodyError(f"batch item at {position} has {total} bytes")
        position += total
        number += 1
        yield number


def walk_batch(data: Buffer) -> Iterator[tuple[int, bytes, bytes]]:
    """As `decode_batch`, item by item, each a plain tuple: the hot path of batches."""
    position, length = 0, len(data)
    while position < length:
        try:
            total, _, _, flag, body_length = _read_head(data, position)
        except struct.error:
            raise BodyError(f"batch item at {position} is cut short") from None
        end = position + total
        body_start = position + _HEAD_SIZE
        body_end = body_start + body_length
        if not body_start <= body_end <= end - 2 or end > length:
            raise BodyError(f"batch item at {position} has {total} bytes with a body of {body_length}")
        if _read_short(data, body_end)[0] != end - body_end - 2:
            raise BodyError(f"the lengths of the batch item at {position} do not add up to its size")
        yield flag, bytes(data[body_start:body_end]), bytes(data[body_end + 2 : end])
        position = end
