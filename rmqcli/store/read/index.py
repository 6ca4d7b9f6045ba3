"""Index files: headers, and the items of a key with the chain of their slot."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.core.hashing import index_key_hash
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.store.file_names import is_file_name, is_index_file_name
from rmqcli.codec.store.index_file import (
    ITEM,
    SLOT,
    IndexHeader,
    IndexItem,
    decode_header,
    decode_item,
    index_file_size,
    item_position,
    slot_position,
    slots_of,
)
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.files import NamedFile, mapped


class IndexGeometry(NamedTuple):
    """A file with its header, its number of slots, and the number of items it can contain."""

    file: NamedFile
    header: IndexHeader
    slots: int
    capacity: int

    @property
    def items(self) -> int:
        """The number of items in use. Item number 0 is never used."""
        return max(self.header.index_count - 1, 0)


class ChainLink(NamedTuple):
    """An item on the chain of a slot: its number, its values, its store time (ms, in whole seconds)."""

    number: int
    item: IndexItem
    time: int
    matches: bool


def index_files(path: Path) -> list[NamedFile]:
    """Return the file, or the files of an `index` folder or of a store, oldest first.

    Raises FileNotFoundError if there is none.
    """
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
    """Determine the numbers of slots and items.

    Raises CorruptionError if none fits, or if `slots` does not.
    """
    found = slots_of(data, file.size, slots)
    return IndexGeometry(file, decode_header(data), found, (file.size - item_position(found, 0)) // ITEM.size)


def key_chain(
    data: memoryview, index: IndexGeometry, topic: str, key: str
) -> tuple[int, int, list[ChainLink]]:
    """Return the hash of a key, its slot, and every item on the chain of the slot, newest first."""
    key_hash = index_key_hash(topic, key)
    slot = key_hash % index.slots
    links: list[ChainLink] = []
    (number,) = SLOT.unpack_from(data, slot_position(slot))
    # The number of items bounds the walk if a damaged chain is a loop.
    while 0 < number < index.header.index_count and len(links) < index.items:
        item = decode_item(data, index.slots, number)
        time = index.header.begin_timestamp + item.time_diff * 1000
        links.append(ChainLink(number, item, time, item.key_hash == key_hash))
        number = item.previous
    return key_hash, slot, links


def overlaps(header: IndexHeader, wanted: OffsetRange) -> bool:
    """Return True if a file contains items of a range of offsets and store times; `last` is ignored."""
    offsets = _meet(header.begin_phy_offset, header.end_phy_offset, wanted.begin, wanted.end)
    times = _meet(header.begin_timestamp, header.end_timestamp, wanted.begin_time, wanted.end_time)
    return offsets and times and not wanted.only_new


def _meet(first: int, last: int, begin: int | None, end: int | None) -> bool:
    return (begin is None or last >= begin) and (end is None or first < end)


def shape_of_index(folder: Path) -> tuple[int, int, dict[int, str]]:
    """Return slots and items of the newest sound file, or zeros, and the file names by first offset."""
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
