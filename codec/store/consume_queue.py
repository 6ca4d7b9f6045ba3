"""Consume-queue files: one entry of 20 bytes for each message of a queue (Java class `ConsumeQueue`).

The queue offset of a message is the byte offset of its entry / 20. The tags code is the hash of the tag or,
in the schedule topic, the delivery time (ms); a value far below any hash is the address of an extension
entry. An entry is in use if its offset is ≥ 0 and its size > 0. A queue that does not start at 0 begins with
FILLER entries.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import construct
from construct import Bytes, Check, Int16sb, Int32sb, Int64sb, this

from rmqcli.codec.errors import CorruptionError, LocalProtocolError
from rmqcli.codec.layout import Buffer, fused

ENTRY = fused(construct.Struct("commit_log_offset" / Int64sb, "size" / Int32sb, "tags_code" / Int64sb))
ENTRY_SIZE = ENTRY.size
FILE_ENTRIES = 300_000
"""The default number of entries in a file."""
FILLER_SIZE = 0x7FFFFFFF
FILLER = ENTRY.pack(0, FILLER_SIZE, 0)


# Batch consume queue files of 5.x: one unit of 46 bytes for each record (Java class `BatchConsumeQueue`).
#
# A record with an inner batch has as many queue offsets as messages: the first is in its unit, so the
# position of a unit in the file has no meaning. `compacted_offset` is -1, because nothing sets it.

# A unit of a batch consume queue (5.x), 46 bytes.
UNIT = fused(
    construct.Struct(
        "commit_log_offset" / Int64sb,
        "size" / Int32sb,
        "tags_code" / Int64sb,
        "store_timestamp" / Int64sb,
        "base_offset" / Int64sb,
        "batch_size" / Int16sb,
        "compacted_offset" / Int32sb,
        "reserved" / Int32sb,
    )
)
FILE_UNITS = 300_000
"""The default number of units in a file."""
FOLDER = "batchconsumequeue"
QUEUE_TYPE, BATCH = "queue.type", "BatchCQ"
"""The topic attribute, and its value, by which the queues of a topic are batch consume queues."""


# Consume-queue extension files, off by default: data that does not fit an entry (Java class
# `ConsumeQueueExt`).
#
# An extension entry has the tags code, the store time and a bit map, the bloom filter of the consumer
# filters. Its size counts the whole entry, at least 20 bytes; the size -1 ends a file. The consume-queue
# entry holds its address (byte offset + the lowest int64) in place of the tags code. Addresses are below
# every tags code.

# The size that ends the entries of an extension file.
END_OF_FILE = -1
LOWEST_ADDRESS = -(2**63)
# Below every int32, so that no hash of a tag can be mistaken for an address.
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
    """The data for consumer filters (Java `CqExtUnit`)."""

    tags_code: int
    store_timestamp: int
    bit_map: bytes

    @property
    def size(self) -> int:
        return HEAD.size + len(self.bit_map)


def encode_extension_entry(entry: ExtensionEntry) -> bytes:
    """Encode an entry. Raises LocalProtocolError if the bit map or a number is too large."""
    try:
        return (
            HEAD.pack(entry.size, entry.tags_code, entry.store_timestamp, len(entry.bit_map)) + entry.bit_map
        )
    except struct.error as error:
        raise LocalProtocolError(f"a number does not fit the entry: {error}") from None


def decode_extension_entry(buffer: Buffer, position: int = 0) -> ExtensionEntry:
    """Read the entry at a position. Raises CorruptionError if it is cut short or its sizes disagree."""
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
    """Return the tags code that refers to the extension entry at a byte offset."""
    return offset + LOWEST_ADDRESS


def offset_of(address: int) -> int:
    return address - LOWEST_ADDRESS
