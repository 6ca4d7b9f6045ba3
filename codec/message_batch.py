"""The body of a batch send (code 320): messages of one topic, one after the other (Java class
`MessageDecoder`).

The broker makes a record of each. An item has no topic, magic or CRC, and is never compressed by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
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
"""Items of other lengths in so many looks; then the rest of a batch is read one by one."""
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
    """As `decode_batch`, item by item, each a plain tuple."""
    position = 0
    while position < len(data):
        flag, body, properties, position = _item_at(data, position)
        yield flag, body, properties


def walk_together(data: Buffer, most: int) -> Iterator[list[tuple[int, bytes, bytes]]]:
    """As `walk_batch`, at most so many items at a time: the hot path of batches.

    Items as long as the one before them, in all their parts, are read in one call.
    """
    position = misses = 0
    items: list[tuple[int, bytes, bytes]] = []
    while position < len(data):
        count = (
            min(most, (len(data) - position) // len_of(items[-1])) if items and misses < MOST_MISSES else 0
        )
        items = _alike(data, position, items[-1], count) if count > 1 else []
        position += sum(map(len_of, items))
        if not items:
            misses += 1
            limit = most if misses > 1 else 1
            try:
                while position < len(data) and len(items) < limit:
                    flag, body, properties, position = _item_at(data, position)
                    items.append((flag, body, properties))
            except BodyError:
                yield items
                raise
        yield items


def _item_at(data: Buffer, position: int) -> tuple[int, bytes, bytes, int]:
    """Flag, body and properties of the item at a position, and where it ends."""
    try:
        total, _, _, flag, body_length = _read_head(data, position)
    except struct.error:
        raise BodyError(f"batch item at {position} is cut short") from None
    end = position + total
    body_start = position + _HEAD_SIZE
    body_end = body_start + body_length
    if not body_start <= body_end <= end - 2 or end > len(data):
        raise BodyError(f"batch item at {position} has {total} bytes with a body of {body_length}")
    if _read_short(data, body_end)[0] != end - body_end - 2:
        raise BodyError(f"the lengths of the batch item at {position} do not add up to its size")
    return flag, bytes(data[body_start:body_end]), bytes(data[body_end + 2 : end]), end


def len_of(item: tuple[int, bytes, bytes]) -> int:
    """The bytes of an item."""
    return SMALLEST_ITEM + len(item[1]) + len(item[2])


def _alike(
    data: Buffer, position: int, like: tuple[int, bytes, bytes], count: int
) -> list[tuple[int, bytes, bytes]]:
    """The next items, if their parts have the lengths of those of an item; none otherwise."""
    lengths = len_of(like), len(like[1]), len(like[2])
    part = memoryview(data)[position : position + count * lengths[0]]
    totals, flags, body_lengths, bodies, text_lengths, texts = zip(
        *_layout_of(*lengths[1:]).iter_unpack(part), strict=True
    )
    found = totals.count(lengths[0]), body_lengths.count(lengths[1]), text_lengths.count(lengths[2])
    return list(zip(flags, bodies, texts, strict=True)) if found == (count, count, count) else []


@lru_cache(maxsize=256)
def _layout_of(body_length: int, text_length: int) -> struct.Struct:
    """The layout of an item whose parts have these lengths: `BATCH_ITEM` without magic and CRC."""
    return struct.Struct(f">i8xii{body_length}sh{text_length}s")
