"""One index file: a header, slots, and items chained from newest to oldest (Java `IndexFile`, `IndexHeader`).

Item numbers begin at 1; the file is full when the next number reaches the item capacity. Times inside are
whole seconds after the begin timestamp. A slot or chain value that is not between 1 and the item count means
empty.

`put` first raises the item count, then writes items and slots, then the rest of the header: a process killed
in between leaves every chain whole, and `take_back` finds the items that the header does not cover.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from rmqcli.broker.disk import Disk
from rmqcli.broker.store.segment import Segment
from rmqcli.codec.core.derived import IndexItem, put_items
from rmqcli.codec.store.index_file import (
    HEADER,
    ITEM,
    SLOT,
    index_file_size,
    item_position,
    slot_position,
    time_difference,
)

FIRST_TWO = 2
"""The count of a file with one item: numbers begin at 1."""
_COUNT_AT = HEADER.size - SLOT.size


Piece = tuple[Segment, int, int]
"""A file, and position and length of a range of bytes in it."""


class IndexFile:
    """A mapped index file. `count` is the number of the next item."""

    def __init__(self, disk: Disk, path: Path, slots: int, items: int) -> None:
        self.segment = Segment(disk, path, 0, index_file_size(slots, items), read_around=False)
        self._slots = slots
        self._items_at = item_position(slots, 0)
        self.capacity = items
        header: tuple[int, ...] = (0,) * 6
        if any(self.segment.data_ranges(0)):
            header = HEADER.unpack_from(self.segment.view, 0)
        self.begin_timestamp, self.end_timestamp, self.begin_offset, self.end_offset = header[:4]
        self.used_slots = header[4]
        self.count = max(header[5], 1)

    @property
    def path(self) -> Path:
        return self.segment.path

    @property
    def nearly_full(self) -> bool:
        return self.count * 8 >= self.capacity * 7

    @property
    def full(self) -> bool:
        return self.count >= self.capacity

    def seed(self, timestamp: int, offset: int) -> None:
        """Set begin and end of a new file to the end of the one before it."""
        self.begin_timestamp = self.end_timestamp = timestamp
        self.begin_offset = self.end_offset = offset
        HEADER.struct.pack_into(self.segment.view, 0, timestamp, timestamp, offset, offset, 0, 0)

    def is_sound(self, before: int, stored_at: Callable[[int], int | None]) -> bool:
        """Return False if the header contradicts the first or last item or the log, or if the file begins
        before offset `before`. Blocks.

        `stored_at` is that of `Index.drop_unsound`.
        """
        # A file is created for its first item: if there is none, the header is lost or was never written.
        if not 1 < self.count <= self.capacity or not 0 <= self.used_slots < self.count:
            return False
        ends = self._item(1)[1], self._item(self.count - 1)[1]
        is_in_order = before <= self.begin_offset <= self.end_offset
        if not is_in_order or ends != (self.begin_offset, self.end_offset):
            return False
        if stored_at(self.begin_offset) not in (None, self.begin_timestamp):
            return False
        # The time of a first item is relative to the end of the previous file.
        seconds = time_difference(self.begin_timestamp, self.end_timestamp)
        return self.count == FIRST_TWO or self._item(self.count - 1)[2] == seconds

    @property
    def room(self) -> int:
        """The number of items that fit into the reserved blocks; `make_room` reserves more."""
        reserved = (self.segment.reserved - self._items_at) // ITEM.size
        return max(min(reserved, self.capacity) - self.count, 0)

    def make_room(self) -> None:
        """Reserve blocks for slots and for the next items. Raises OSError if the disk is full. Blocks."""
        self.segment.reserve(self._items_at + (self.count + 1) * ITEM.size)

    def put(self, items: Sequence[IndexItem]) -> None:
        """Add items, which must fit (`room`), in order."""
        if not items:
            return
        if self.count == 1 and len(items) > 1:  # the times of all others are relative to that of the first
            self.put(items[:1])
            items = items[1:]
        count, view = self.count, self.segment.view
        SLOT.pack_into(view, _COUNT_AT, count + len(items))
        self.used_slots += put_items(view, self._slots, count, self.begin_timestamp, items)
        if self.count == 1:
            _, self.begin_offset, self.begin_timestamp = items[0]
        self.count = count + len(items)
        _, self.end_offset, self.end_timestamp = items[-1]
        self._write_header()

    def _write_header(self) -> None:
        HEADER.struct.pack_into(
            self.segment.view,
            0,
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_offset,
            self.end_offset,
            self.used_slots,
            self.count,
        )

    def take_back(self) -> None:
        """Undo the items of the last message, and later ones of an interrupted `put`, so that they can be
        added again.

        `end_timestamp` is then exact to the second only.
        """
        before = self.count
        if before > self.capacity:
            return  # an impossible header, which `is_sound` refuses later
        while self.count > 1 and not self._is_settled(self.count - 1):
            self._undo(self.count - 1)
        if self.count == before:
            return
        if self.count > 1:
            _, self.end_offset, seconds, _ = self._item(self.count - 1)
            self.end_timestamp = self.begin_timestamp + seconds * 1000
        self._write_header()

    def _item(self, number: int) -> tuple[int, ...]:
        return ITEM.unpack_from(self.segment.view, self._items_at + number * ITEM.size)

    def _is_settled(self, number: int) -> bool:
        """Return True if an item is linked, and so written, and belongs to a message before the last one in
        the header."""
        key_hash, offset, _, _ = self._item(number)
        newest: int = SLOT.unpack_from(self.segment.view, slot_position(key_hash % self._slots))[0]
        return newest >= number and offset < self.end_offset

    def _undo(self, number: int) -> None:
        view, at = self.segment.view, self._items_at + number * ITEM.size
        key_hash, offset, _, previous = self._item(number)
        slot_at = slot_position(key_hash % self._slots)
        if SLOT.unpack_from(view, slot_at)[0] == number:
            SLOT.struct.pack_into(view, slot_at, previous)
            # The header, written last, has not counted the slots of items after its last message.
            if not previous and offset <= self.end_offset:
                self.used_slots -= 1
        view[at : at + ITEM.size] = bytes(ITEM.size)
        self.count = number

    def overlaps(self, begin: int, end: int) -> bool:
        """Return True if the file may hold items of [begin, end] ms (Java `isTimeMatched`)."""
        return begin <= self.end_timestamp and end >= self.begin_timestamp

    def select(self, key_hash: int, limit: int, begin: int, end: int) -> Generator[Piece, None, list[int]]:
        """Return the commit-log offsets of at most `limit` items with this hash and a time in [begin, end]
        ms, newest first. Yields each range of the file before reading it; the file may be removed in
        between."""
        found: list[int] = []
        # The slice keeps the file mapped if it is removed in between.
        segment, view = self.segment, self.segment.view[:]
        slot_at = slot_position(key_hash % self._slots)
        yield segment, slot_at, SLOT.size
        number: int = SLOT.unpack_from(view, slot_at)[0]
        if number >= self.count:
            return found
        while number > 0 and len(found) < limit:
            yield segment, self._items_at + number * ITEM.size, ITEM.size
            hash_read, offset, seconds, previous = ITEM.unpack_from(view, self._items_at + number * ITEM.size)
            time_read = self.begin_timestamp + seconds * 1000
            if seconds < 0:
                break
            if hash_read == key_hash and begin <= time_read <= end:
                found.append(offset)
            # A damaged link to a later item would cause an endless loop.
            if time_read < begin or previous >= number:
                break
            number = previous
        return found

    def load_pages(self) -> None:
        """Read the pages to which the next items may be written, unless they are in memory. Blocks.

        Raises OSError if the disk has no room for them.
        """
        self.make_room()
        segment = self.segment
        for position, length in ((0, self._items_at), (self._items_at + self.count * ITEM.size, ITEM.size)):
            if not segment.is_resident(position, length):
                segment.load_pages(position, length)

    def release_pages(self) -> None:
        self.segment.release_pages(0, self.segment.size)

    def close(self) -> None:
        self.segment.close()

    def destroy(self) -> None:
        self.segment.destroy()
