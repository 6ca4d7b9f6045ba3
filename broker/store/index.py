"""The message index: finds messages by key, UNIQ_KEY included (Java `IndexService`).

Items are gathered and written `BATCH` or more at a time, before every query, at every flush and at the stop:
that makes a send cheaper, and recovery puts what a killed process had gathered again. A batch is small enough
to be written while a client that got its reply prepares the next request. Items that need a new file stay
gathered until a worker has created it (`deferred`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from broker.disk import Disk
from broker.errors import StoreSizeMismatch
from broker.store.index_file import IndexFile, Piece
from broker.store.segment import DISK_FULL, Segment
from broker.store.segment_list import ADOPTED
from codec.core.derived import IndexItem
from codec.core.hashing import index_key_hash
from codec.core.run import QueueRun
from codec.errors import CorruptionError
from codec.properties import decode_properties
from codec.store.dispatch import index_keys
from codec.store.file_names import index_file_name, index_file_name_after, is_index_file_name
from codec.store.index_file import (
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
"""Items that may wait for a file; then the file is created at once."""
RELEASE_ITEMS = 1 << 16
_DAMAGED = "%s is damaged: messages are indexed again from there on"

_log = logging.getLogger(__name__)


class IndexHits(NamedTuple):
    """Offsets by file and chain, newest first; the end values of the newest file."""

    offsets: list[int]
    last_timestamp: int
    last_offset: int


class Index:
    """All index files of a store, oldest first.

    `deferred`: `drain` neither creates a file nor reads pages of one, but calls `file_wanted`; `build` and
    `offer` bring the file, and `resident` says that the pages were read (`IndexFile.load_pages`). `refused`
    says that the disk has no room for more. If neither `slots` nor `items` is given, those of the files are
    adopted, else Java's defaults.
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
        """Called when a file became full."""
        self.files: list[IndexFile] = []

    def survey(self) -> None:
        """Find the files, and changes nothing. StoreSizeMismatch names one of another geometry. Blocks."""
        size = index_file_size(self.slots, self.items)
        paths = [path for path in self._disk.list(self._folder) if is_index_file_name(path.name)]
        self._found = {path: state.size for path in paths if (state := self._disk.state(path)) is not None}
        written = {path: length for path, length in self._found.items() if length}
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
        """Take the numbers of slots and items from the files, those of the most usual length first; False if
        none tells them.
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
        """Return True for a file that no settings would give this length, or whose items are where these put
        them.
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
        """Map what `survey` found; a file of another length, and those behind it, are removed. Blocks."""
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
        """Note that files are in doubt which were not complete and flushed at `timestamp` ms, or where it is
        known, at commit-log offset `offset` (load after a power cut)."""
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
        """Remove the files from the first on that contradicts itself, the one before or the log; True if any.

        `stored_at`: the store time in ms of the record at an offset of the log, None where it has none.
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
        """After an unclean stop: takes back the last message, whose keys may be incomplete, and the rest."""
        while self.files:
            self.files[-1].take_back()
            if self.files[-1].count > 1:
                return
            self.files.pop().destroy()

    def truncate(self, end: int) -> bool:
        """Remove files that know messages at or after `end`, which will be other messages from now on; True
        if there were any."""
        return self._drop([file for file in self.files if file.end_offset >= end and file.count > 1])

    def _drop(self, files: list[IndexFile]) -> bool:
        for file in files:
            self.files.remove(file)
            file.destroy()
        return bool(files)

    def full_files_behind(self, offset: int) -> list[IndexFile]:
        """Return the full files that end behind a commit-log offset, oldest first."""
        return [file for file in self.files if file.full and file.end_offset > offset]

    @property
    def end_offset(self) -> int:
        """Commit log offset of the last message that was indexed; -1 if none."""
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
        """Add items in the order of the log."""
        self._pending += items
        if len(self._pending) >= BATCH:
            self.drain()

    def add_in_steps(self, items: Iterable[IndexItem]) -> Iterator[None]:
        """Add items; yield after each."""
        for item in items:
            self.add_items((item,))
            yield

    def drain(self, *, may_create: bool = False) -> None:
        """Write what was gathered, as far as there are files for it, or all of it (which may block)."""
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
            if start:
                self._pending = items[start:]
                self._release(start)

    @property
    def pending(self) -> int:
        """The number of items that are gathered."""
        return len(self._pending)

    @property
    def waits(self) -> bool:
        """True if items wait for a file or its pages, which the disk may have room for."""
        return bool(self._pending) and self._must_wait and not self.refused

    def refuse(self, error: OSError) -> None:
        """Note that the disk is full: items stay gathered."""
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
        """True if a file should be built: one is needed now, or will be soon."""
        if self._spare is not None:
            return False
        return self.files[-1].nearly_full if self.files else bool(self._pending)

    def build(self) -> IndexFile:
        """Create the next file. Blocks; safe in a worker thread."""
        self._disk.make_folder(self._folder)
        file = IndexFile(self._disk, self._free_name(), self.slots, self.items)
        try:
            file.make_room()
        except OSError:
            file.destroy()
            raise
        return file

    def offer(self, file: IndexFile) -> None:
        """Keep a file that was built ahead."""
        if self._spare is None:
            self._spare = file
        else:
            file.close()

    def _release(self, count: int) -> None:
        self._items_since_release += count
        if self._items_since_release >= RELEASE_ITEMS:
            self.release_pages()

    def release_pages(self) -> None:
        """Free the memory of pages: each new key touches one of its own, until all slots are in memory."""
        self._items_since_release = 0
        for file in self.files:
            file.release_pages()

    def _current(self) -> IndexFile:
        if self.files and not self.files[-1].full:
            return self.files[-1]
        file, self._spare = self._spare or self.build(), None
        if self.files:
            full = self.files[-1]
            file.seed(full.end_timestamp, full.end_offset)
            self.completed()
        self.files = [*self.files, file]
        self.resident = True
        return file

    def _free_name(self) -> Path:
        """Return the local creation time; a later one if the clock went back, to keep the names in order."""
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
        """Offsets of messages that may have the key (hash equality), newest first, times in ms at second
        precision. Yields each piece of a file before it is read."""
        self.drain(may_create=True)
        key_hash = index_key_hash(topic, key)
        gathered = (
            item[1] for item in reversed(self._pending) if item[0] == key_hash and begin <= item[2] <= end
        )
        offsets = dict.fromkeys(islice(gathered, max(limit, 0)))  # what the disk has no room for
        for file in reversed(self.files):
            if file.overlaps(begin, end):
                found = yield from file.select(key_hash, limit - len(offsets), begin, end)
                offsets.update(dict.fromkeys(found))
            if file.begin_timestamp < begin or len(offsets) >= limit:
                break
        newest = self.files[-1] if self.files else None
        return IndexHits(
            list(offsets), newest.end_timestamp if newest else 0, newest.end_offset if newest else 0
        )

    def take_expired(self, physical_min: int) -> list[Segment]:
        """Take out the files that end before `physical_min`, never the last. The caller destroys them."""
        taken = []
        while len(self.files) > 1 and self.files[0].end_offset < physical_min:
            taken.append(self.files[0].segment)
            self.files = self.files[1:]
        return taken

    def close(self) -> None:
        """Close the files; what was gathered and not drained is lost, as for a killed process."""
        self._pending = []
        if self._spare is not None:
            self._spare.destroy()
            self._spare = None
        for file in self.files:
            file.close()
        self.files = []


def items_of(stored: QueueRun) -> Iterator[IndexItem]:
    """Yield the index items of messages, each made when it is asked for."""
    for offset, text in zip(stored.offsets, stored.texts, strict=True):
        for key in index_keys(decode_properties(text)):
            yield index_key_hash(stored.topic, key), offset, stored.timestamp
