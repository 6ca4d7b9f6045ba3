"""Index files: headers, and the items of a key with the chain of their slot.

A file does not say how many slots it has; its size, and the slots of its newest items, do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from codec.core.hashing import index_key_hash
from codec.errors import CorruptionError
from codec.store.file_names import is_file_name, is_index_file_name
from codec.store.index_file import (
    FILE_ITEMS,
    FILE_SLOTS,
    HEADER,
    ITEM,
    SLOT,
    IndexHeader,
    IndexItem,
    decode_header,
    decode_item,
    index_file_size,
    item_position,
    slot_position,
)
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.files import NamedFile, mapped

_TRIED_ITEMS = 8
_ITEMS_A_SLOT = FILE_ITEMS // FILE_SLOTS
_MOST_GUESSES = 1 << 20


class IndexGeometry(NamedTuple):
    """A file with its header, its number of slots, and the number of items that it has room for."""

    file: NamedFile
    header: IndexHeader
    slots: int
    capacity: int

    @property
    def items(self) -> int:
        """Items in use; number 0 is never used."""
        return max(self.header.index_count - 1, 0)


class ChainLink(NamedTuple):
    """An item on the chain of a slot: its number, its values, its store time (ms, of whole seconds)."""

    number: int
    item: IndexItem
    time: int
    matches: bool


def index_files(path: Path) -> list[NamedFile]:
    """Returns the file, or those of a folder `index` or a store, oldest first. FileNotFoundError if none."""
    if path.is_file():
        if is_file_name(path.name):
            raise FileNotFoundError(2, "not an index file: it is named by an offset", str(path))
        return [NamedFile(path, None, path.stat().st_size)]
    folder = path / "index" if (path / "index").is_dir() else path
    found = sorted(item for item in folder.iterdir() if is_index_file_name(item.name) and item.is_file())
    if not found:
        raise FileNotFoundError(
            2, "no index file (named by its time, 17 digits) is in this folder", str(folder)
        )
    return [NamedFile(item, None, item.stat().st_size) for item in found]


def geometry_of(file: NamedFile, data: memoryview, slots: int | None = None) -> IndexGeometry:
    """Finds the numbers of slots and items. CorruptionError if none fits, or `slots` does not."""
    header = decode_header(data)
    fitting: Iterator[int] = filter(
        partial(_fits, data, header), iter((slots,)) if slots else _guesses(file.size)
    )
    first = next(fitting, None)
    if first is None:
        raise CorruptionError("header, slots and items do not fit each other", 0)
    # Where most keys are the same, other numbers fit, too; none agrees with a header that is damaged.
    agreeing = (n for n in chain((first,), fitting) if n == FILE_SLOTS or _agrees(data, header, n))
    found = next(agreeing, first)
    return IndexGeometry(file, header, found, (file.size - item_position(found, 0)) // ITEM.size)


def _guesses(size: int) -> Iterator[int]:
    """Yields numbers of slots to try: by the ratio of Java's defaults, the default, then every other."""
    usual = (size - HEADER.size) // (SLOT.size + ITEM.size * _ITEMS_A_SLOT)
    every = range(
        (size - HEADER.size) // SLOT.size % (ITEM.size // SLOT.size),
        size // SLOT.size,
        ITEM.size // SLOT.size,
    )
    return chain((usual, FILE_SLOTS), every[:_MOST_GUESSES])


def _fits(data: memoryview, header: IndexHeader, slots: int) -> bool:
    """Returns True if whole items follow the slots, and the slots of the newest items lead to these items."""
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
    """Returns True if the first item is where the header begins, and the newest where it ends."""
    if header.index_count <= 1:
        return True
    first, newest = (decode_item(data, slots, number) for number in (1, header.index_count - 1))
    return (first.phy_offset, newest.phy_offset) == (header.begin_phy_offset, header.end_phy_offset)


def key_chain(
    data: memoryview, index: IndexGeometry, topic: str, key: str
) -> tuple[int, int, list[ChainLink]]:
    """Returns the hash of a key, its slot, and every item on the slot's chain, newest first."""
    key_hash = index_key_hash(topic, key)
    slot = key_hash % index.slots
    links: list[ChainLink] = []
    (number,) = SLOT.unpack_from(data, slot_position(slot))
    while 0 < number < index.header.index_count and len(links) < index.items:
        item = decode_item(data, index.slots, number)
        time = index.header.begin_timestamp + item.time_diff * 1000
        links.append(ChainLink(number, item, time, item.key_hash == key_hash))
        number = item.previous
    return key_hash, slot, links


def overlaps(header: IndexHeader, wanted: OffsetRange) -> bool:
    """Returns True if a file has items of a range of offsets and store times; `last` is ignored."""
    offsets = _meet(header.begin_phy_offset, header.end_phy_offset, wanted.begin, wanted.end)
    times = _meet(header.begin_timestamp, header.end_timestamp, wanted.begin_time, wanted.end_time)
    return offsets and times and not wanted.only_new


def _meet(first: int, last: int, begin: int | None, end: int | None) -> bool:
    return (begin is None or last >= begin) and (end is None or first < end)


def shape_of_index(folder: Path) -> tuple[int, int, dict[int, str]]:
    """Returns slots and items of the newest file, zeros if none tells, and file names by first offset."""
    shape, names = (0, 0), {}
    try:
        files = index_files(folder)
    except (FileNotFoundError, NotADirectoryError):
        return (*shape, {})
    for file in files:
        with mapped(file) as data:
            try:
                found = geometry_of(file, data)
            except CorruptionError:
                continue
        if found.items or found.file.size == index_file_size(found.slots, found.capacity):
            shape = found.slots, found.capacity
        if found.items:
            names[found.header.begin_phy_offset] = file.path.name
    return (*shape, names)
