"""Consume queue extension files: what does not fit a consume queue entry (Java class `ConsumeQueueExt`, off
by default).

An entry is the tags code, the store time and a bit map, the bloom filter result of the
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
    return ["size" / Int16sb, "tags_code" / Int64sb, "store_timestamp" / Int64sb, "bit_map_size" / Int16sb]


HEAD = fused(construct.Struct(*_head()))
EXTENSION_ENTRY = construct.Struct(
    *_head(),
    "bit_map" / Bytes(this.bit_map_size),
    Check(lambda entry: entry.size == HEAD.size + entry.bit_map_size),
)
_SHORT = struct.Struct(">h")


class ExtensionEntry(NamedTuple):
    """An extension entry (Java `CqExtUnit`): the data that consumer filters use."""

    tags_code: int
    store_timestamp: int
    bit_map: bytes

    @property
    def size(self) -> int:
        return HEAD.size + len(self.bit_map)


def encode_extension_entry(entry: ExtensionEntry) -> bytes:
    """Raises LocalProtocolError when the bit map or a number is too large."""
    try:
        return (
            HEAD.pack(entry.size, entry.tags_code, entry.store_timestamp, len(entry.bit_map)) + entry.bit_map
        )
    except struct.error as error:
        raise LocalProtocolError(f"a number does not fit the entry: {error}") from None


def decode_extension_entry(buffer: Buffer, position: int = 0) -> ExtensionEntry:
    """Reads the entry at a position. Raises CorruptionError when it is cut short or its sizes disagree."""
    try:
        size, tags_code, store_timestamp, bit_map_size = HEAD.unpack_from(buffer, position)
    except struct.error:
        raise CorruptionError("an extension entry is cut short", position) from None
    end = position + size
    if bit_map_size < 0 or size != HEAD.size + bit_map_size or end > len(buffer):
        raise CorruptionError(f"an extension entry of {size} bytes, bit map {bit_map_size}", position)
    return ExtensionEntry(tags_code, store_timestamp, bytes(buffer[position + HEAD.size : end]))


def walk_extension_entries(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, ExtensionEntry]]:
    """Yields positions and entries up to the end mark, zeros, or the end of the buffer."""
    while position + _SHORT.size <= len(buffer) and _SHORT.unpack_from(buffer, position)[0] not in (
        END_OF_FILE,
        0,
    ):
        entry = decode_extension_entry(buffer, position)
        yield position, entry
        position += entry.size


def is_address(tags_code: int) -> bool:
    """Returns True when the tags code of a consume queue entry is an address."""
    return tags_code <= HIGHEST_ADDRESS


def address_of(offset: int) -> int:
    """Returns the tags code that stands for the extension entry at a byte offset."""
    return offset + LOWEST_ADDRESS


def offset_of(address: int) -> int:
    return address - LOWEST_ADDRESS
