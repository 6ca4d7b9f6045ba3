"""The message index, which finds messages by key, UNIQ_KEY included (Java `IndexService`).

Items are collected and written at least `BATCH` at a time, and before every query, at every flush and at the
stop. That makes a send cheaper; after a kill, recovery adds the items that were still in memory. A batch is
small enough to be written while a client that got its reply prepares the next request. Items that need a new
file stay in memory until a worker has created it (`deferred`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rmqcli.broker.disk import Disk
from rmqcli.broker.errors import StoreSizeMismatch
from rmqcli.broker.store.index_file import IndexFile, Piece
from rmqcli.broker.store.segment import DISK_FULL, Segment
from rmqcli.broker.store.segment_list import ADOPTED
from rmqcli.codec.core.derived import IndexItem
from rmqcli.codec.core.hashing import index_key_hash
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.dispatch import index_keys
from rmqcli.codec.store.file_names import index_file_name, index_file_name_after, is_index_file_name
from rmqcli.codec.store.index_file import (
    FILE_ITEMS,
    FILE_SLOTS,
    HEADER,
    ITEM,
    index_file_size,
    is_index_file_size,
    item_position,
    slots_of,
)

BATCH = 32
MOST_PENDING = 1 << 20
"""Maximum number of items that wait for a file; beyond that, it is created in the event loop."""
RELEASE_ITEMS = 1 << 16
_DAMAGED = "%s is damaged: messages are indexed again from there on"

_log = logging.getLogger(__name__)


class IndexHits(NamedTuple):
    """Offsets, newest first within each file and chain, and the end values of the newest file."""

    offsets: list[int]
    last_timestamp: int
    last_offset: int


class Index:
    """All index files of a store, oldest first.

    If `deferred`, `drain` neither creates a file nor reads pages of one, but calls `file_wanted`; `build` and
    `offer` then provide the file, and `resident` is True once its pages were read (`IndexFile.load_pages`).
    `refused` is True while the disk has no room for more. If neither `slots` nor `items` is given, the
    numbers are those of the existing files, otherwise Java's defaults.
    """

    def __init__(
        self, disk: Disk, folder: Path, slots: int | None, items: int | None, *, now_ms: Callable[[], int]
    ) -> None:
        self._disk = disk
        self._folder = folder
        self.slots = slots or FILE_SLOTS
        self.items = items or FILE_ITEMS
        self._adopts = slots is None and items is None
        self._now_ms = now_ms
        self._pending: list[IndexItem] = []
        self._items_since_release = 0
        self._spare: IndexFile | None = None
        self._found: dict[Path, int] = {}
        self._doubted: list[IndexFile] = []
        self.deferred = self.resident = self.refused = False
        self.file_wanted: Callable[[], None] = lambda: None
        self.completed: Callable[[], None] = lambda: None
        """Called when a file has become full."""
        # Replaced, never changed in place, once the store is open: a search may be in the middle of the old list.
        self.files: list[IndexFile] = []

    def survey(self) -> None:
        """Find the files without changing anything. Raises StoreSizeMismatch, which names a file with other
        numbers of slots and items. Blocks."""
        size = index_file_size(self.slots, self.items)
        paths = [path for path in self._disk.list(self._folder) if is_index_file_name(path.name)]
        self._found = {path: state.size for path in paths if (state := self._disk.state(path)) is not None}
        written = {path: length for path, length in self._found.items() if length}
        # If any file has the configured size, the settings are correct: `open` removes files of other
        # lengths.
        if size in written.values():
            return
        for path, length in written.items():
            if len(written) > 1 or not self._is_cut_off(path, length):
                if self._adopts and self._adopt(written):
                    return
                raise StoreSizeMismatch(
                    f"{path} is {length} bytes long, but maxHashSlotNum {self.slots} and maxIndexNum "
                    f"{self.items} make {size}: set them as the folder was written with, or move the index "
                    f"folder away (it is rebuilt)"
                )

    def _adopt(self, written: dict[Path, int]) -> bool:
        """Adopt the numbers of slots and items from a file, preferring the most common length. Return False
        if no file reveals them.
        """
        counts = Counter(written.values())
        for path, length in sorted(written.items(), key=lambda one: (counts[one[1]], one[1]), reverse=True):
            file = self._disk.open_mapped(path, length, may_create=False)
            try:
                self.slots = slots_of(file.view, length)
            except CorruptionError:
                continue
            finally:
                file.close()
            self.items = (length - item_position(self.slots, 0)) // ITEM.size
            _log.info(ADOPTED, "maxHashSlotNum", self.slots)
            _log.info(ADOPTED, "maxIndexNum", self.items)
            return True
        return False

    def _is_cut_off(self, path: Path, length: int) -> bool:
        """Return True if no settings produce this length, or if the items lie where the current settings put
        them: the file is then cut off, not of another geometry.
        """
        if length > index_file_size(self.slots, self.items):
            return not is_index_file_size(length)
        header = self._disk.read_part(path, 0, HEADER.size)
        if not is_index_file_size(length) or len(header) < HEADER.size:
            return True
        _, _, begin_offset, _, _, count = HEADER.unpack_from(header, 0)
        if index_file_size(1, count) > length:
            return True
        first = self._disk.read_part(path, item_position(self.slots, 1), ITEM.size)
        return len(first) == ITEM.size and any(first) and ITEM.unpack_from(first, 0)[1] == begin_offset

    def open(self) -> None:
        """Map the files that `survey` found; remove a file of another length and all later ones. Blocks."""
        size = index_file_size(self.slots, self.items)
        is_cut = False
        for path, length in self._found.items():
            is_cut = is_cut or length not in (0, size)
            if length == 0 or is_cut:
                if length:
                    _log.warning(_DAMAGED, path)
                self._disk.unlink(path)
                continue
            self.files.append(IndexFile(self._disk, path, self.slots, self.items))
        self._found = {}

    def doubt_after(self, timestamp: int, offset: int = -1) -> None:
        """Note, after a power cut, that files are in doubt unless they were complete and flushed at
        `timestamp` ms or, if it is known, at commit-log offset `offset`."""
        self._doubted = [
            file
            for file in self.files
            if (file.end_offset > offset if offset >= 0 else file.end_timestamp > timestamp)
        ]

    def drop_doubted(self) -> None:
        """Remove the files that are in doubt. Blocks."""
        self._drop(self._doubted)
        self._doubted = []

    def drop_unsound(self, stored_at: Callable[[int], int | None]) -> bool:
        """Remove the first file that contradicts itself, its predecessor or the log, and all later ones.
        Return True if there was one.

        `stored_at` returns the store time in ms of the record at an offset of the log, None if there is none.
        """
        end = -1
        for number, file in enumerate(self.files):
            if not file.is_sound(end, stored_at):
                _log.warning(_DAMAGED, file.path)
                self._drop(self.files[number:])
                return True
            end = file.end_offset
        return False

    def take_back(self) -> None:
        """Remove, after an unclean stop, the items of the last message, whose keys may be incomplete, and
        those that the header does not know."""
        while self.files:
            self.files[-1].take_back()
            if self.files[-1].count > 1:
                return
            self.files.pop().destroy()

    def truncate(self, end: int) -> bool:
        """Remove files with messages at or after `end`, where other messages will be stored from now on.
        Return True if there were any."""
        return self._drop([file for file in self.files if file.end_offset >= end and file.count > 1])

    def _drop(self, files: list[IndexFile]) -> bool:
        self.files = [file for file in self.files if file not in files]
        for file in files:
            file.destroy()
        return bool(files)

    def full_files_behind(self, offset: int) -> list[IndexFile]:
        """Return the full files whose last message is after a commit-log offset, oldest first."""
        return [file for file in self.files if file.full and file.end_offset > offset]

    @property
    def end_offset(self) -> int:
        """Commit-log offset of the last indexed message; -1 if there is none."""
        # An empty file knows the end of the one before it; the first one has none before it.
        return (
            self.files[-1].end_offset
            if self.files and (self.files[-1].count > 1 or len(self.files) > 1)
            else -1
        )

    def add(self, hashes: Iterable[int], offset: int, timestamp: int) -> None:
        """Add the items of one message, given the hashes of its keys in order."""
        self._pending += [(key_hash, offset, timestamp) for key_hash in hashes]
        if len(self._pending) >= BATCH:
            self.drain()

    def add_items(self, items: Iterable[IndexItem]) -> None:
        """Add items, in log order."""
        self._pending += items
        if len(self._pending) >= BATCH:
            self.drain()

    def add_in_steps(self, items: Iterable[IndexItem]) -> Iterator[None]:
        """Add items; yield after each."""
        for item in items:
            self.add_items((item,))
            yield

    def drain(self, *, may_create: bool = False) -> None:
        """Write the items in memory as far as the files have room; all of them if `may_create`, which may
        block."""
        items, start = self._pending, 0
        if not items:
            return
        try:
            while start < len(items):
                if self._must_wait and self.deferred and not may_create and len(items) - start < MOST_PENDING:
                    if not self.refused:
                        self.file_wanted()
                    break
                file = self._current()
                if not file.room:
                    file.make_room()
                put = min(file.room, len(items) - start)
                file.put(items[start : start + put])
                start += put
        except OSError as error:
            if error.errno not in DISK_FULL or len(items) - start >= MOST_PENDING:
                raise
            self.refuse(error)
        finally:
            # Also after an error: what is in a file must not be written a second time.
            if start:
                self._pending = items[start:]
                self._release(start)

    @property
    def pending(self) -> int:
        """The number of items in memory."""
        return len(self._pending)

    @property
    def waits(self) -> bool:
        """True if items wait for a file or its pages, and the disk is not known to be full."""
        return bool(self._pending) and self._must_wait and not self.refused

    def refuse(self, error: OSError) -> None:
        """Note that the disk is full: items stay in memory."""
        if not self.refused:
            _log.warning("the index waits for room on the disk: %s", error)
        self.refused = True

    @property
    def _must_wait(self) -> bool:
        if not self.files or self.files[-1].full:
            return self._spare is None
        return not (self.resident and self.files[-1].room)

    @property
    def should_prepare(self) -> bool:
        """True if a file is needed now or will be soon, and none is prepared."""
        if self._spare is not None:
            return False
        return self.files[-1].nearly_full if self.files else bool(self._pending)

    def build(self) -> IndexFile:
        """Create the next file. Blocks; safe to call in a worker thread."""
        self._disk.make_folder(self._folder)
        file = IndexFile(self._disk, self._free_name(), self.slots, self.items)
        try:
            file.make_room()
        except OSError:
            file.destroy()
            raise
        return file

    def offer(self, file: IndexFile) -> None:
        """Keep a file that was built in advance."""
        if self._spare is None:
            self._spare = file
        else:
            file.close()

    def _release(self, count: int) -> None:
        self._items_since_release += count
        if self._items_since_release >= RELEASE_ITEMS:
            self.release_pages()

    def release_pages(self) -> None:
        """Release pages from memory: each new key touches another page, until all slots are in memory."""
        self._items_since_release = 0
        for file in self.files:
            file.release_pages()

    def _current(self) -> IndexFile:
        if self.files and not self.files[-1].full:
            return self.files[-1]
        file, self._spare = self._spare or self.build(), None
        if self.files:
            full = self.files[-1]
            # Until its first item is written, a file has the end of the one before it, as in Java.
            file.seed(full.end_timestamp, full.end_offset)
            self.completed()
        self.files = [*self.files, file]
        self.resident = True
        return file

    def _free_name(self) -> Path:
        """Return a path named by the local creation time, or a later time if the clock went back: names stay
        in order."""
        return self._folder / index_file_name_after(
            self.files[-1].path.name if self.files else "", index_file_name(self._now_ms())
        )

    def query(
        self,
        topic: str,
        key: str,
        limit: int,
        begin: int,
        end: int,
    ) -> Generator[Piece, None, IndexHits]:
        """Return the offsets of at most `limit` messages whose key hash matches, newest first. Times are in
        ms with a precision of one second. Yields each range of a file before reading it."""
        self.drain(may_create=True)
        key_hash = index_key_hash(topic, key)
        gathered = (
            item[1] for item in reversed(self._pending) if item[0] == key_hash and begin <= item[2] <= end
        )
        # Items are still in memory if the disk has no room for them.
        offsets = dict.fromkeys(islice(gathered, max(limit, 0)))
        for file in reversed(self.files):
            # A file that was removed while the search waited refers to records that are gone.
            if file in self.files and file.overlaps(begin, end):
                found = yield from file.select(key_hash, limit - len(offsets), begin, end)
                offsets.update(dict.fromkeys(found))
            # A file begins where the one before it ends: all earlier files are older than `begin`.
            if file.begin_timestamp < begin or len(offsets) >= limit:
                break
        newest = self.files[-1] if self.files else None
        return IndexHits(
            list(offsets), newest.end_timestamp if newest else 0, newest.end_offset if newest else 0
        )

    def take_expired(self, physical_min: int) -> list[Segment]:
        """Detach and return the files that end before `physical_min`, never the last. The caller destroys
        them."""
        taken = []
        while len(self.files) > 1 and self.files[0].end_offset < physical_min:
            taken.append(self.files[0].segment)
            self.files = self.files[1:]
        return taken

    def close(self) -> None:
        """Close the files. Items that were not drained are lost, as if the process were killed."""
        self._pending = []
        if self._spare is not None:
            self._spare.destroy()
            self._spare = None
        for file in self.files:
            file.close()
        self.files = []


def items_of(stored: QueueRun) -> Iterator[IndexItem]:
    """Yield the index items of messages lazily."""
    for offset, text in zip(stored.offsets, stored.texts, strict=True):
        for key in index_keys(decode_properties(text)):
            yield index_key_hash(stored.topic, key), offset, stored.timestamp
