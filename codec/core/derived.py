"""Data derived from records: the entries of consume queues, and the items of index files with their slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from rmqcli.codec.store.index_file import HEADER, ITEM, MAX_TIME_DIFF, SLOT

IndexItem = tuple[int, int, int]
"""Key hash, commit-log offset, store timestamp in ms."""

_HEADER_SIZE: Final[i64] = HEADER.size
_SLOT_SIZE: Final[i64] = SLOT.size
_ITEM_SIZE: Final[i64] = ITEM.size
_LATEST: Final[i64] = MAX_TIME_DIFF
_read_slot: Final = SLOT.unpack_from
_write_slot: Final = SLOT.struct.pack_into


def encode_entries(offsets: Sequence[int], sizes: Sequence[int], codes: Sequence[int]) -> bytes:
    """Return adjacent queue entries, given the commit-log offset, size and tags code of each."""
    out = BytesWriter()
    for offset, size, code in zip(offsets, sizes, codes, strict=True):
        write_i64_be(out, offset)
        write_i32_be(out, i32(size))
        write_i64_be(out, code)
    return out.getvalue()


def put_items(
    view: memoryview, slots: i64, number: i64, begin_timestamp: i64, items: Sequence[IndexItem]
) -> i64:
    """Write items to an index file from an item number on, each linked to the previous one in its slot, and
    update the slots; return how many of the slots were empty.

    A slot with the number of an item that does not exist counts as empty; a torn page may leave one.
    """
    used: i64 = 0
    begin: i64 = _HEADER_SIZE + slots * _SLOT_SIZE + number * _ITEM_SIZE
    out = BytesWriter()
    newest: dict[int, int] = {}
    for key_hash, offset, timestamp in items:
        slot: i64 = _HEADER_SIZE + i64(key_hash) % slots * _SLOT_SIZE
        # Slots are written at the end, so that an item of this call is not in its slot yet.
        previous: i64 = newest.get(slot, 0)
        if previous == 0:
            previous = _read_slot(view, slot)[0]
            if not 0 < previous <= number:
                previous = 0
                used += 1
        seconds: i64 = 0
        if begin_timestamp > 0:
            seconds = min(max((timestamp - begin_timestamp) // 1000, 0), _LATEST)
        write_i32_be(out, i32(key_hash))
        write_i64_be(out, offset)
        write_i32_be(out, i32(seconds))
        write_i32_be(out, i32(previous))
        newest[slot] = number
        number += 1
    written = out.getvalue()
    # Items are written before the slots that point to them, so that every chain is valid at any time.
    view[begin : begin + len(written)] = written
    for slot, number in newest.items():
        _write_slot(view, slot, number)
    return used
