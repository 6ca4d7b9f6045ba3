"""Chains of index slots, followed and written for all slots at once. Needs NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from codec.scan.arrays import Array
from codec.store.index_file import (
    ITEM,
    MAX_TIME_DIFF,
    SLOT,
    IndexHeader,
    WrongLink,
    item_position,
    slot_position,
)

_BLOCK_ITEMS = 1 << 18


def wrong_links(data: memoryview, slots: int, count: int) -> Iterator[WrongLink]:
    """Does what `codec.store.index_file.wrong_links` does."""
    newest = np.zeros(slots, dtype=np.int64)
    for begin in range(1, count, _BLOCK_ITEMS):
        end = min(begin + _BLOCK_ITEMS, count)
        raw = data[item_position(slots, begin) : item_position(slots, end)]
        items = np.frombuffer(raw, dtype=ITEM.dtype())
        expected = previous_items(items["key_hash"].astype(np.int64) % slots, begin, newest)
        found = items["previous"].astype(np.int64)
        for place in np.flatnonzero(found != expected).tolist():
            yield WrongLink(None, begin + place, int(found[place]), int(expected[place]))
    heads = np.frombuffer(data[slot_position(0) : slot_position(slots)], dtype=SLOT.dtype())["item"]
    for slot in np.flatnonzero(heads != newest).tolist():
        yield WrongLink(slot, 0, int(heads[slot]), int(newest[slot]))


def previous_items(of_item: Array, begin: int, newest: Array) -> Array:
    """Returns the previous item of each item's slot; `newest` of each slot is advanced past these items."""
    # Sorting numbers takes a quarter of the time of a stable argsort.
    bits = len(of_item).bit_length()
    keys = (of_item.astype(np.int64) << bits) + np.arange(len(of_item))
    keys.sort()
    ordered, order = keys >> bits, keys & ((1 << bits) - 1)
    numbers = order + begin
    changes = ordered[1:] != ordered[:-1]
    is_first, is_last = np.append(True, changes), np.append(changes, True)
    before = np.append(0, numbers[:-1])
    expected = np.empty(len(order), dtype=np.int64)
    expected[order] = np.where(is_first, newest[ordered], before)
    newest[ordered[is_last]] = numbers[is_last]
    return expected


def time_differences(begin_timestamp: int, timestamps: Array) -> Array:
    """Does what `codec.store.index_file.time_difference` does."""
    seconds: Array = np.clip((timestamps - begin_timestamp) // 1000, 0, MAX_TIME_DIFF)
    return seconds if begin_timestamp > 0 else np.zeros_like(seconds)


def write_items(
    pages: Any, slots: int, header: IndexHeader, hashes: Array, offsets: Array, timestamps: Array
) -> IndexHeader:
    """Writes items and slots of a file that has an item already. Returns the header, which is not written."""
    begin, count = header.index_count, len(hashes)
    newest = np.frombuffer(pages, SLOT.dtype(), slots, slot_position(0))["item"]
    items = np.frombuffer(pages, ITEM.dtype(), count, item_position(slots, begin))
    previous = previous_items(hashes % slots, begin, newest)
    items["key_hash"], items["phy_offset"], items["previous"] = hashes, offsets, previous
    items["time_diff"] = time_differences(header.begin_timestamp, timestamps)
    return header._replace(
        end_timestamp=int(timestamps[-1]),
        end_phy_offset=int(offsets[-1]),
        hash_slot_count=header.hash_slot_count + int(np.count_nonzero(previous == 0)),
        index_count=begin + count,
    )
