"""Index files: commit-log offsets by the hashes of message keys (Java classes `IndexFile`, `IndexHeader`).

A file has a header (40 bytes), slots (int32: the number of the newest item of a hash, 0 for none), and items
(20 bytes each, linked to the next older item of the same slot). Items are numbered from 1; item 0 is never
used, so `index_count` of an empty file is 1, and a file with space for n items holds n - 1.
`rmqcli.codec.core.hashing.index_key_hash` hashes a key; its slot is the hash modulo the number of slots.
Times of items are whole seconds since `begin_timestamp`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

import construct
from construct import Int32sb, Int64sb

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.layout import Buffer, fused

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
"""The default number of slots in a file."""
FILE_ITEMS = 20_000_000
"""The default number of items in a file."""
MAX_TIME_DIFF = 0x7FFFFFFF


class IndexHeader(NamedTuple):
    """The header. `hash_slot_count` is the number of slots in use, `index_count` the number of the next
    item; times are in ms.
    """

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_phy_offset: int = 0
    end_phy_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1


class IndexItem(NamedTuple):
    """An item. `time_diff` is in seconds since the header's begin; `previous` is the number of the next
    older item, or 0.
    """

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
    """Return True if a file with some number of slots and items has this size in bytes."""
    return size >= index_file_size(1, 1) and (size - HEADER.size) % SLOT.size == 0


def time_difference(begin_timestamp: int, store_timestamp: int) -> int:
    """Return the time (s) in an item for a store time (ms); 0 while the file has no begin."""
    if begin_timestamp <= 0:
        return 0
    return min(max((store_timestamp - begin_timestamp) // 1000, 0), MAX_TIME_DIFF)


def decode_header(buffer: Buffer) -> IndexHeader:
    """Read the header. Raises CorruptionError if the file is shorter than 40 bytes."""
    try:
        return IndexHeader._make(HEADER.unpack_from(buffer, 0))
    except struct.error:
        raise CorruptionError("an index file without a whole header", 0) from None


def decode_item(buffer: Buffer, slots: int, item: int) -> IndexItem:
    """Read an item by its number. Raises CorruptionError if the file ends before it."""
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


_TRIED_ITEMS = 8
_ITEMS_A_SLOT = FILE_ITEMS // FILE_SLOTS
_MOST_GUESSES = 1 << 20


def slots_of(data: memoryview, size: int, slots: int | None = None) -> int:
    """Return the number of slots of a file of `size` bytes. Raises CorruptionError if no number fits, or if
    `slots` does not.
    """
    header = decode_header(data)
    fitting: Iterator[int] = filter(partial(_fits, data, header), iter((slots,)) if slots else _guesses(size))
    first = next(fitting, None)
    if first is None:
        raise CorruptionError("header, slots and items do not fit each other", 0)
    # If most keys are equal, other numbers fit as well; if the header is damaged, none agrees with it.
    agreeing = (n for n in chain((first,), fitting) if n == FILE_SLOTS or _agrees(data, header, n))
    return next(agreeing, first)


def _guesses(size: int) -> Iterator[int]:
    """Yield numbers of slots to try: the one by the ratio of Java's defaults, the default, then every
    other.
    """
    usual = (size - HEADER.size) // (SLOT.size + ITEM.size * _ITEMS_A_SLOT)
    # Items are five times as long as slots, so only every fifth number leaves whole items.
    every = range(
        (size - HEADER.size) // SLOT.size % (ITEM.size // SLOT.size),
        size // SLOT.size,
        ITEM.size // SLOT.size,
    )
    return chain((usual, FILE_SLOTS), every[:_MOST_GUESSES])


def _fits(data: memoryview, header: IndexHeader, slots: int) -> bool:
    """Return True if whole items follow the slots, and the slots of the newest items point to these items."""
    room = len(data) - item_position(slots, 0)
    if slots <= 0 or room < ITEM.size or room % ITEM.size:
        return False
    count = header.index_count
    if header.end_phy_offset < header.begin_phy_offset or count < 0:
        return False
    if count > 1 and item_position(slots, count) > len(data):
        return False
    seen: set[int] = set()
    for number in range(count - 1, max(count - 1 - _TRIED_ITEMS, 0), -1):
        slot = decode_item(data, slots, number).key_hash % slots
        if slot not in seen and SLOT.unpack_from(data, slot_position(slot))[0] != number:
            return False
        seen.add(slot)
    return True


def _agrees(data: memoryview, header: IndexHeader, slots: int) -> bool:
    """Return True if the header begins at the offset of the first item and ends at that of the newest."""
    if header.index_count <= 1:
        return True
    first, newest = (decode_item(data, slots, number) for number in (1, header.index_count - 1))
    return (first.phy_offset, newest.phy_offset) == (header.begin_phy_offset, header.end_phy_offset)
