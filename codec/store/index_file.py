"""Index files: commit-log offsets by the hashes of message keys (Java classes `IndexFile`, `IndexHeader`).

A file has a header (40 bytes), slots (int32: the number of the newest item of a hash, 0 for none), and
items (20 bytes each, linked to the next older one of the slot). Items are numbered from 1; item 0 is
never used, so `index_count` of an empty file is 1 and a file with room for n items holds n - 1.
`codec.core.hashing.index_key_hash` hashes a key; its slot is the hash modulo the number of slots. Times of
items are whole seconds since `begin_timestamp`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import construct
from construct import Int32sb, Int64sb

from codec.errors import CorruptionError
from codec.layout import Buffer, fused

HEADER = fused(
    construct.Struct(
        "begin_timestamp" / Int64sb,
        "end_timestamp" / Int64sb,
        "begin_phy_offset" / Int64sb,
        "end_phy_offset" / Int64sb,
        "hash_slot_count" / Int32sb,
        "index_count" / Int32sb,
    )
)
SLOT = fused(construct.Struct("item" / Int32sb))
ITEM = fused(
    construct.Struct(
        "key_hash" / Int32sb, "phy_offset" / Int64sb, "time_diff" / Int32sb, "previous" / Int32sb
    )
)
FILE_SLOTS = 5_000_000
"""Slots of one file by default."""
FILE_ITEMS = 20_000_000
"""Items of one file by default."""
MAX_TIME_DIFF = 0x7FFFFFFF


class IndexHeader(NamedTuple):
    """The header. `hash_slot_count` counts the slots in use, `index_count` is the number of the next item;
    times are ms."""

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_phy_offset: int = 0
    end_phy_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1


class IndexItem(NamedTuple):
    """An item. `time_diff` is seconds since the header's begin, `previous` the number of the next older item
    or 0."""

    key_hash: int
    phy_offset: int
    time_diff: int
    previous: int


def slot_position(slot: int) -> int:
    return HEADER.size + slot * SLOT.size


def item_position(slots: int, item: int) -> int:
    return HEADER.size + slots * SLOT.size + item * ITEM.size


def index_file_size(slots: int = FILE_SLOTS, items: int = FILE_ITEMS) -> int:
    return item_position(slots, items)


def is_index_file_size(size: int) -> bool:
    """Return True if there are numbers of slots and items that make this size in bytes."""
    return size >= index_file_size(1, 1) and (size - HEADER.size) % SLOT.size == 0


def time_difference(begin_timestamp: int, store_timestamp: int) -> int:
    """Return the time (s) that an item holds for a store time (ms); 0 while the file has no begin."""
    if begin_timestamp <= 0:
        return 0
    return min(max((store_timestamp - begin_timestamp) // 1000, 0), MAX_TIME_DIFF)


def decode_header(buffer: Buffer) -> IndexHeader:
    """Read the header. Raises CorruptionError when the file is shorter than 40 bytes."""
    try:
        return IndexHeader._make(HEADER.unpack_from(buffer, 0))
    except struct.error:
        raise CorruptionError("an index file without a whole header", 0) from None


def decode_item(buffer: Buffer, slots: int, item: int) -> IndexItem:
    """Read an item by its number. Raises CorruptionError when the file ends before it."""
    position = item_position(slots, item)
    try:
        return IndexItem._make(ITEM.unpack_from(buffer, position))
    except struct.error:
        raise CorruptionError(f"the index file ends before item {item}", position) from None


class WrongLink(NamedTuple):
    """A wrong item number: in `slot`, or as the previous item of `item` (then `slot` is -1)."""

    slot: int
    item: int
    found: int
    expected: int

    def position(self, slots: int) -> int:
        if self.slot < 0:
            return item_position(slots, self.item)
        return slot_position(self.slot)

    def __str__(self) -> str:
        if self.slot < 0:
            return f"item {self.item}: the item before it in its chain is {self.found}, not {self.expected}"
        return f"slot {self.slot}: its newest item is {self.found}, not {self.expected}"
