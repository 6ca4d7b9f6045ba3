"""The chain of a key in an index file whose links are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from codec.hashing import index_key_hash
from codec.store.index_file import HEADER, ITEM, SLOT, index_file_size, item_position, slot_position
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
