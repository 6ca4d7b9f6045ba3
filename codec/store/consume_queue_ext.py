"""Consume-queue extension files, off by default: what does not fit an entry (Java class `ConsumeQueueExt`).

An extension entry has the tags code, the store time and a bit map, the bloom filter of the consumer
filters. Its size counts the whole entry, at least 20 bytes; the size -1 ends a file. The consume-queue
entry holds its address (byte offset + the lowest int64) in place of the tags code. Addresses are below
every tags code.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import construct
from construct import Bytes, Check, Int16sb, Int64sb, this

from codec.errors import CorruptionError, LocalProtocolError
from codec.layout import Buffer, fused

END_OF_FILE = -1
LOWEST_ADDRESS = -(2**63)
HIGHEST_ADDRESS = -(2**31) - 1

HEAD = fused(
    construct.Struct(
        "size" / Int16sb, "tags_code" / Int64sb, "store_timestamp" / Int64sb, "bit_map_size" / Int16sb
    )
)
EXTENSION_ENTRY = construct.Struct(
    *HEAD.declaration.subcons,
    "bit_map" / Bytes(this.bit_map_size),
    Check(lambda entry: entry.size == HEAD.size + entry.bit_map_size),
)


class ExtensionEntry(NamedTuple):
    """The data that consumer filters use (Java `CqExtUnit`)."""

    tags_code: int
    store_timestamp: int
    bit_map: bytes

    @property
    def size(self) -> int:
        return HEAD.size + len(self.bit_map)


def encode_extension_entry(entry: ExtensionEntry) -> bytes:
    """Encode an entry. Raises LocalProtocolError when the bit map or a number is too large."""
    try:
        return (
            HEAD.pack(entry.size, entry.tags_code, entry.store_timestamp, len(entry.bit_map)) + entry.bit_map
        )
    except struct.error as error:
        raise LocalProtocolError(f"a number does not fit the entry: {error}") from None


def decode_extension_entry(buffer: Buffer, position: int = 0) -> ExtensionEntry:
    """Read the entry at a position. Raises CorruptionError when it is cut short or its sizes disagree."""
    try:
        size, tags_code, store_timestamp, bit_map_size = HEAD.unpack_from(buffer, position)
    except struct.error:
        raise CorruptionError("an extension entry is cut short", position) from None
    end = position + size
    if bit_map_size < 0 or size != HEAD.size + bit_map_size or end > len(buffer):
        raise CorruptionError(f"an extension entry of {size} bytes, bit map {bit_map_size}", position)
    return ExtensionEntry(tags_code, store_timestamp, bytes(buffer[position + HEAD.size : end]))


def is_address(tags_code: int) -> bool:
    """Return True if the tags code of a consume-queue entry is an address."""
    return tags_code <= HIGHEST_ADDRESS


def address_of(offset: int) -> int:
    """Return the tags code that stands for the extension entry at a byte offset."""
    return offset + LOWEST_ADDRESS


def offset_of(address: int) -> int:
    return address - LOWEST_ADDRESS
