"""The number of slots of an index file: it does not say it; its size, and the slots of its newest items, do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

from codec.errors import CorruptionError
from codec.store.index_file import (
    FILE_ITEMS,
    FILE_SLOTS,
    HEADER,
    ITEM,
    SLOT,
    IndexHeader,
    decode_header,
    decode_item,
    item_position,
    slot_position,
)

_TRIED_ITEMS = 8
_ITEMS_A_SLOT = FILE_ITEMS // FILE_SLOTS
_MOST_GUESSES = 1 << 20


def slots_of(data: memoryview, size: int, slots: int | None = None) -> int:
    """Find the number of slots of a file of `size` bytes. CorruptionError if none fits, or `slots` does not."""
    header = decode_header(data)
    fitting: Iterator[int] = filter(partial(_fits, data, header), iter((slots,)) if slots else _guesses(size))
    first = next(fitting, None)
    if first is None:
        raise CorruptionError("header, slots and items do not fit each other", 0)
    # Where most keys are the same, other numbers fit, too; none agrees with a header that is damaged.
    agreeing = (n for n in chain((first,), fitting) if n == FILE_SLOTS or _agrees(data, header, n))
    return next(agreeing, first)


def _guesses(size: int) -> Iterator[int]:
    """Yield numbers of slots to try: by the ratio of Java's defaults, the default, then every other."""
    usual = (size - HEADER.size) // (SLOT.size + ITEM.size * _ITEMS_A_SLOT)
    every = range(
        (size - HEADER.size) // SLOT.size % (ITEM.size // SLOT.size),
        size // SLOT.size,
        ITEM.size // SLOT.size,
    )
    return chain((usual, FILE_SLOTS), every[:_MOST_GUESSES])


def _fits(data: memoryview, header: IndexHeader, slots: int) -> bool:
    """Return True if whole items follow the slots, and the slots of the newest items lead to these items."""
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
    """Return True if the first item is where the header begins, and the newest where it ends."""
    if header.index_count <= 1:
        return True
    first, newest = (decode_item(data, slots, number) for number in (1, header.index_count - 1))
    return (first.phy_offset, newest.phy_offset) == (header.begin_phy_offset, header.end_phy_offset)
