"""The chains of index slots, followed for all slots at once. Needs NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from codec.index_file import ITEM, SLOT, item_position, slot_position

__all__ = ["wrong_links"]

Array = np.ndarray[Any, np.dtype[Any]]
Link = tuple[int | None, int, int, int]

_BLOCK_ITEMS = 1 << 18


def wrong_links(data: memoryview, slots: int, count: int) -> Iterator[Link]:
    """Slot (None for an item), item (0 for a slot), the number found there and the right one; items first, in order."""
    newest = np.zeros(slots, dtype=np.int64)
    for begin in range(1, count, _BLOCK_ITEMS):
        end = min(begin + _BLOCK_ITEMS, count)
        raw = data[item_position(slots, begin) : item_position(slots, end)]
        items = np.frombuffer(raw, dtype=ITEM.dtype())
        expected = _previous(items["key_hash"].astype(np.int64) % slots, begin, newest)
        found = items["previous"].astype(np.int64)
        for place in np.flatnonzero(found != expected).tolist():
            yield None, begin + place, int(found[place]), int(expected[place])
    heads = np.frombuffer(data[slot_position(0) : slot_position(slots)], dtype=SLOT.dtype())["item"]
    for slot in np.flatnonzero(heads != newest).tolist():
        yield slot, 0, int(heads[slot]), int(newest[slot])


def _previous(of_item: Array, begin: int, newest: Array) -> Array:
    """The item before each in its slot; `newest` of each slot, up to `begin`, becomes that up to the end."""
    order = np.argsort(of_item, kind="stable")
    ordered, numbers = of_item[order], order + begin
    changes = ordered[1:] != ordered[:-1]
    is_first, is_last = np.append(True, changes), np.append(changes, True)
    before = np.append(0, numbers[:-1])
    expected = np.empty(len(order), dtype=np.int64)
    expected[order] = np.where(is_first, newest[ordered], before)
    newest[ordered[is_last]] = numbers[is_last]
    return expected
