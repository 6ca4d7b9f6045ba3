"""Writer of index files from key hashes, byte for byte as Java's `IndexService` writes them.

A file is named after its creation time, which cannot be known afterwards. A file that begins at the same
record as an old one gets its name; others are named after the store time of their first record.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Final

from rmqcli.codec.core.derived import IndexItem, put_items
from rmqcli.codec.store.file_names import index_file_name, index_file_name_after
from rmqcli.codec.store.index_file import (
    FILE_ITEMS,
    FILE_SLOTS,
    HEADER,
    ITEM,
    SLOT,
    IndexHeader,
    index_file_size,
    item_position,
    slot_position,
    time_difference,
)

_KEYED: Final = Struct(">iqq")
"""Hash, commit-log offset and store time (ms) of an item."""


class IndexWriter:
    """Writes the files of a folder `index`.

    `names` maps the commit-log offset at which a file begins to its name.
    """

    def __init__(
        self,
        folder: Path,
        slots: int = FILE_SLOTS,
        items: int = FILE_ITEMS,
        names: Mapping[int, str] | None = None,
    ) -> None:
        self.files = self.items = 0
        self.completed_timestamp = 0
        """The end time (ms) of the last full file, which the checkpoint contains."""
        self._folder = folder
        self._slots = slots
        self._capacity = items
        self._names = names or {}
        self._last_name = ""
        self._pages: mmap.mmap | None = None
        self._header = IndexHeader()

    def put(self, hashes: Sequence[int], offset: int, timestamp: int) -> None:
        for key_hash in hashes:
            if self._pages is None or self._header.index_count >= self._capacity:
                self._roll(offset, timestamp)
            assert self._pages is not None
            self._put(self._pages, key_hash, offset, timestamp)

    def put_many(self, keyed: bytes) -> None:
        """Write index items, in the form that `rmqcli.codec.core.dispatch` produces."""
        items, at = list(_KEYED.iter_unpack(keyed)), 0
        while at < len(items):
            # The first item of a file sets the begin of its header, so it is written singly.
            if self._pages is None or self._header.index_count in (1, self._capacity):
                key_hash, offset, timestamp = items[at]
                self.put([key_hash], offset, timestamp)
                at += 1
                continue
            end = min(at + self._capacity - self._header.index_count, len(items))
            self._put_some(self._pages, items[at:end])
            at = end

    def _put_some(self, pages: mmap.mmap, items: list[IndexItem]) -> None:
        """Write several items to a file that has at least one already and space for all of them."""
        header = self._header
        with memoryview(pages) as view:
            used = put_items(view, self._slots, header.index_count, header.begin_timestamp, items)
        _, offset, timestamp = items[-1]
        self._header = header._replace(
            end_timestamp=timestamp,
            end_phy_offset=offset,
            hash_slot_count=header.hash_slot_count + used,
            index_count=header.index_count + len(items),
        )
        self.items += len(items)

    def _put(self, pages: mmap.mmap, key_hash: int, offset: int, timestamp: int) -> None:
        header = self._header
        number = header.index_count
        slot_at = slot_position(key_hash % self._slots)
        (previous,) = SLOT.unpack_from(pages, slot_at)
        seconds = time_difference(header.begin_timestamp, timestamp)
        ITEM.struct.pack_into(pages, item_position(self._slots, number), key_hash, offset, seconds, previous)
        SLOT.struct.pack_into(pages, slot_at, number)
        first = number == 1
        self._header = IndexHeader(
            timestamp if first else header.begin_timestamp,
            timestamp,
            offset if first else header.begin_phy_offset,
            offset,
            header.hash_slot_count + (previous == 0),
            number + 1,
        )
        self.items += 1

    def _roll(self, offset: int, timestamp: int) -> None:
        """Start a file. Its times begin where those of the previous file end."""
        full = self._header
        self.finish()
        if self.files:
            self.completed_timestamp = full.end_timestamp
        self._header = IndexHeader(
            full.end_timestamp, full.end_timestamp, full.end_phy_offset, full.end_phy_offset
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        self._pages = _preallocated(
            self._folder / self._name(offset, timestamp), index_file_size(self._slots, self._capacity)
        )
        self.files += 1

    def _name(self, offset: int, timestamp: int) -> str:
        wanted = self._names.get(offset) or index_file_name(timestamp)
        self._last_name = index_file_name_after(self._last_name, wanted)
        return self._last_name

    def finish(self) -> None:
        if self._pages is not None:
            HEADER.struct.pack_into(self._pages, 0, *self._header)
            self._pages.flush()
            self._pages.close()
            self._pages = None


def _preallocated(path: Path, size: int) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(handle, size)
        return mmap.mmap(handle, size)
    finally:
        os.close(handle)
