"""The body of a batch send (code 320): messages of one topic, one after the other (Java class
`MessageDecoder`).

The broker makes a record of each. An item has no topic, magic or CRC, and is never compressed by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
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
MOST_MISSES = 4
"""Looks that found items of several lengths; then the rest of a batch is read one by one."""
_read_lengths = struct.Struct(">i8xii").unpack_from
"""Reads `HEAD` without magic and CRC."""
_read_short = _SHORT.unpack_from
_read_total = HEAD.part("total_size").unpack_from


Columns = tuple[Sequence[int], Sequence[bytes], Sequence[bytes]]
"""Flags, bodies and texts of the properties of some items."""


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
    """As `decode_batch`, item by item, each a plain tuple."""
    data, position = bytes(data), 0
    while position < len(data):
        columns, position = _items_at(data, position, 1)
        yield from zip(*columns, strict=True)


def walk_together(data: Buffer, most: int) -> Iterator[Columns]:
    """As `walk_batch`, at most so many items at a time, by columns: the hot path of batches.

    Items that are as long as the first of them, in all their parts, are read in one call.
    """
    data, position, misses = bytes(data), 0, 0
    while position < len(data):
        columns = _alike(data, position, most) if misses < MOST_MISSES else None
        if columns is None:
            misses += 1
            columns, position = _items_at(data, position, most)
        else:
            position += len(columns[0]) * _read_total(data, position)[0]
        yield columns


def _items_at(data: bytes, position: int, most: int) -> tuple[Columns, int]:
    """Whole items from a position on, at most so many, and where they end. BodyError if there is none."""
    flags: list[int] = []
    bodies: list[bytes] = []
    texts: list[bytes] = []
    limit, read_lengths, read_short = len(data), _read_lengths, _read_short
    while position < limit and len(flags) < most:
        try:
            total, flag, body_length = read_lengths(data, position)
        except struct.error:
            if flags:
                break
            raise BodyError(f"batch item at {position} is cut short") from None
        body_at, end = position + _HEAD_SIZE, position + total
        body_end = body_at + body_length
        is_whole = body_at <= body_end <= end - 2 and end <= limit
        if not is_whole or read_short(data, body_end)[0] != end - body_end - 2:
            if flags:
                break
            raise _wrong_item(position, total, body_length, is_whole=is_whole)
        flags.append(flag)
        bodies.append(data[body_at:body_end])
        texts.append(data[body_end + 2 : end])
        position = end
    return (flags, bodies, texts), position


def _wrong_item(position: int, total: int, body_length: int, *, is_whole: bool) -> BodyError:
    if is_whole:
        return BodyError(f"the lengths of the batch item at {position} do not add up to its size")
    return BodyError(f"batch item at {position} has {total} bytes with a body of {body_length}")


def _alike(data: bytes, position: int, most: int) -> Columns | None:
    """The next items, if at least two and all of them have parts of the same lengths; None otherwise."""
    if len(data) - position < 2 * SMALLEST_ITEM:
        return None
    size, _, body_length = _read_lengths(data, position)
    text_length = size - SMALLEST_ITEM - body_length
    count = min(most, (len(data) - position) // size) if body_length >= 0 <= text_length else 0
    if count < 2 or _read_total(data, position + (count - 1) * size)[0] != size:
        return None  # the common case of bodies of many lengths
    part = memoryview(data)[position : position + count * size]
    totals, flags, body_lengths, bodies, text_lengths, texts = zip(
        *_layout_of(body_length, text_length).iter_unpack(part), strict=True
    )
    found = totals.count(size), body_lengths.count(body_length), text_lengths.count(text_length)
    return (flags, bodies, texts) if found == (count, count, count) else None


@lru_cache(maxsize=256)
def _layout_of(body_length: int, text_length: int) -> struct.Struct:
    """The layout of an item whose parts have these lengths: `BATCH_ITEM` without magic and CRC."""
    return struct.Struct(f">i8xii{body_length}sh{text_length}s")
