"""The check of an index while it grows: new items against the records that they belong to, in the order of both.

An item is settled when the end in the header of its file lies behind its record; its slot then leads to it or
to a newer item, and its link to an older one of the same slot.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from codec.store.file_names import MAX_OFFSET
from codec.store.index_file import (
    HEADER,
    ITEM,
    SLOT,
    IndexHeader,
    IndexItem,
    item_position,
    slot_position,
    time_difference,
)
from rmqcli.store.read.files import NamedFile, opened
from rmqcli.store.read.index import index_files
from rmqcli.store.verify.findings import Finding

_ITEMS_AT_ONCE: Final = 4096


class _Expected(NamedTuple):
    """An item that a record has; times in ms."""

    key_hash: int
    offset: int
    timestamp: int


class IndexReadBack:
    """Checks the files of `folder` from the first item of a record at commit-log offset `begin` or behind."""

    def __init__(self, folder: Path, begin: int, slots: int) -> None:
        self._folder = folder
        self._begin = begin
        self._slots = slots
        self._expected: deque[_Expected] = deque()
        self._name = ""
        self._number = 1
        """The file of the next item, and its number there."""

    @property
    def behind(self) -> int:
        """The number of items that are expected."""
        return len(self._expected)

    def missing_from(self, end: int) -> int:
        """Return the commit-log offset of the first record with an item that is expected; `end` if there is
        none.
        """
        return self._expected[0].offset if self._expected else end

    def expect(self, offset: int, timestamp: int, hashes: Sequence[int]) -> None:
        """Add the items of the next record."""
        self._expected += [_Expected(key_hash, offset, timestamp) for key_hash in hashes]

    def check(self) -> Finding | None:
        """Compare what the index has now with what is expected; the first difference. OSError. Blocks."""
        files: list[NamedFile] = []
        with suppress(FileNotFoundError, NotADirectoryError):
            files = [file for file in index_files(self._folder) if file.path.name >= self._name]
        for file in files:
            if not self._expected:
                break
            with opened(file) as handle:
                if (finding := self._check_file(file, handle, is_last=file is files[-1])) is not None:
                    return finding
        return None

    def _check_file(self, file: NamedFile, handle: int, *, is_last: bool) -> Finding | None:
        header = _header(handle)
        if file.path.name != self._name:
            self._name = file.path.name
            numbers = range(1, max(header.index_count, 1))
            self._number = 1 + bisect_left(numbers, self._begin, key=partial(self._offset_of, handle))
        for number, item in self._items(handle, header):
            if not self._expected:
                break
            problem = self._problem(handle, header, number, item)
            if problem is not None:
                if is_last and max(item.phy_offset, self._expected[0].offset) >= header.end_phy_offset:
                    break  # it may be half written
                return Finding(file.path, item_position(self._slots, number), f"item {number}: {problem}")
            self._expected.popleft()
            self._number = number + 1
        return None

    def _offset_of(self, handle: int, number: int) -> int:
        item = self._item(handle, number)
        return item.phy_offset if any(item) else MAX_OFFSET

    def _items(self, handle: int, header: IndexHeader) -> Iterator[tuple[int, IndexItem]]:
        while self._number < header.index_count:
            first = self._number
            most = min(header.index_count - first, _ITEMS_AT_ONCE)
            data = os.pread(handle, most * ITEM.size, item_position(self._slots, first))
            whole = len(data) // ITEM.size * ITEM.size
            for number, fields in enumerate(ITEM.iter_unpack(data[:whole]), first):
                yield number, IndexItem._make(fields)
            if self._number != first + most:
                return

    def _problem(self, handle: int, header: IndexHeader, number: int, item: IndexItem) -> str | None:
        wanted = self._expected[0]
        if item[:2] != wanted[:2]:
            return f"it has hash and commit-log offset {item[:2]}, the record {wanted[:2]}"
        seconds = time_difference(header.begin_timestamp, wanted.timestamp)
        if number > 1 and item.time_diff != seconds:
            return f"it has {item.time_diff} s, the record at {wanted.offset} {seconds} s"
        slot = item.key_hash % self._slots
        (newest,) = SLOT.unpack(os.pread(handle, SLOT.size, slot_position(slot)))
        known = header if newest < header.index_count else _header(handle)
        if not number <= newest < known.index_count:
            return f"slot {slot} does not lead to it, but to item {newest}"
        if item.previous and not self._is_older(handle, number, item):
            return f"the item before it in its chain, {item.previous}, is none of its slot"
        return None

    def _is_older(self, handle: int, number: int, item: IndexItem) -> bool:
        if not 0 < item.previous < number:
            return False
        older = self._item(handle, item.previous)
        return older.key_hash % self._slots == item.key_hash % self._slots

    def _item(self, handle: int, number: int) -> IndexItem:
        return IndexItem._make(ITEM.unpack(os.pread(handle, ITEM.size, item_position(self._slots, number))))


def _header(handle: int) -> IndexHeader:
    return IndexHeader._make(HEADER.unpack(os.pread(handle, HEADER.size, 0)))
