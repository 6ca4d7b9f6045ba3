"""The chain of a key in an index file whose links are wrong, and the shape of files whose keys are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.codec.core.hashing import index_key_hash
from rmqcli.codec.store.index_file import HEADER, ITEM, SLOT, index_file_size, item_position, slot_position
from rmqcli.store.read.files import NamedFile
from rmqcli.store.read.index import geometry_of, key_chain

SLOTS = 4


def chain(previous: int) -> list[int]:
    """The numbers on the chain of a key in a file with two items, the first of which has this link."""
    key_hash = index_key_hash("T", "k")
    data = bytearray(index_file_size(SLOTS, 20))
    data[: HEADER.size] = HEADER.pack(1000, 2000, 0, 100, 1, 3)
    ITEM.pack_into(data, item_position(SLOTS, 1), key_hash, 0, 0, previous)
    ITEM.pack_into(data, item_position(SLOTS, 2), key_hash, 100, 0, 1)
    SLOT.pack_into(data, slot_position(key_hash % SLOTS), 2)
    view = memoryview(data)
    links = key_chain(view, geometry_of(NamedFile(Path("index"), None, len(data)), view, SLOTS), "T", "k")[2]
    return [link.number for link in links]


def test_a_sound_chain() -> None:
    assert chain(0) == [2, 1]


def test_a_loop_ends_after_as_many_items_as_there_are() -> None:
    assert chain(2) == [2, 1]


@pytest.mark.parametrize("previous", [-1, 3, 2**31 - 1])
def test_a_number_out_of_range_ends_the_chain(previous: int) -> None:
    assert chain(previous) == [2, 1]


@pytest.mark.parametrize("key_hash", range(4))
@pytest.mark.parametrize("slots", [4, 64, 65, 100])
def test_the_shape_of_a_file_with_one_key(slots: int, key_hash: int) -> None:
    """With fewer slots every item is its neighbour, which has the same hash."""
    items = 50
    data = bytearray(index_file_size(slots, items))
    data[: HEADER.size] = HEADER.pack(1000, 2000, 100, 100 + items - 2, 1, items)
    for number in range(1, items):
        ITEM.pack_into(data, item_position(slots, number), key_hash, 99 + number, 0, number - 1)
    SLOT.pack_into(data, slot_position(key_hash), items - 1)
    found = geometry_of(NamedFile(Path("index"), None, len(data)), memoryview(data))
    assert (found.slots, found.capacity) == (slots, items)
