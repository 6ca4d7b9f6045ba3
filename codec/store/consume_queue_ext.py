"""Consume queue extension files: what does not fit a consume queue entry (Java class `ConsumeQueueExt`, off
by default).

An entry (Java `CqExtUnit`) is the tags code, the store time and a bit map, the bloom filter result of the
consumer filters. Its size counts the whole entry, at least 20 bytes. The size -1 ends a file. A consume queue
entry holds the address of an extension entry (byte offset + the lowest int64) in place of the tags code;
addresses are below every tags code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import construct
from construct import Bytes, Check, Int16sb, Int64sb, this

from codec.errors import CorruptionError, LocalProtocolError
from codec.layout import fused

FILE_SIZE = 48 * 1024 * 1024
END_OF_FILE = -1
LOWEST_ADDRESS = -(2**63)
HIGHEST_ADDRESS = -(2**31) - 1

Buffer = bytes | bytearray | memoryview


def _head() -> list[Any]:
    return [
        "size" / Int16sb,
        "tags_code" / Int64sb,
        "store_timestamp" / Int64sb,
        "bit_map_size" / Int16sb,
    ]


HEAD = fused(construct.Struct(*_head()))
UNIT = construct.Struct(
    *_head(),
    "bit_map" / Bytes(this.bit_map_size),
    Check(lambda unit: unit.size == HEAD.size + unit.bit_map_size),
)
_SHORT = struct.Struct(">h")


class Unit(NamedTuple):
    """An extension entry: the data that consumer filters use."""

    tags_code: int
    store_timestamp: int
    bit_map: bytes

    @property
    def size(self) -> int:
        return HEAD.size + len(self.bit_map)


def encode_unit(unit: Unit) -> bytes:
    """Raises LocalProtocolError when the bit map or a number is too large."""
    try:
        return HEAD.pack(unit.size, unit.tags_code, unit.store_timestamp, len(unit.bit_map)) + unit.bit_map
    except struct.error as error:
        raise LocalProtocolError(f"a number does not fit the entry: {error}") from None


def decode_unit(buffer: Buffer, position: int = 0) -> Unit:
    """Reads the entry at a position. Raises CorruptionError when it is cut short or its sizes disagree."""
    try:
        size, tags_code, store_timestamp, bit_map_size = HEAD.unpack_from(buffer, position)
    except struct.error:
        raise CorruptionError("an extension entry is cut short", position) from None
    end = position + size
    if bit_map_size < 0 or size != HEAD.size + bit_map_size or end > len(buffer):
        raise CorruptionError(f"an extension entry of {size} bytes, bit map {bit_map_size}", position)
    return Unit(tags_code, store_timestamp, bytes(buffer[position + HEAD.size : end]))


def walk_units(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, Unit]]:
    """Yields positions and entries up to the end mark, zeros, or the end of the buffer."""
    while position + _SHORT.size <= len(buffer) and _SHORT.unpack_from(buffer, position)[0] not in (
        END_OF_FILE,
        0,
    ):
        unit = decode_unit(buffer, position)
        yield position, unit
        position += unit.size


def is_address(tags_code: int) -> bool:
    """Returns True when the tags code of a consume queue entry is an address."""
    return tags_code <= HIGHEST_ADDRESS


def address_of(offset: int) -> int:
    """Returns the tags code that stands for the extension entry at a byte offset."""
    return offset + LOWEST_ADDRESS


def offset_of(address: int) -> int:
    return address - LOWEST_ADDRESS
