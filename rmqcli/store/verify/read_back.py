"""The check of a store folder while it grows: written data is read back from the files, in order.

Records are checked as the broker checks them at a start: sizes that form a chain, magic, CRC, and the offset
stored in each record. Every record must have its queue entry, and its index items must follow those of the
record before it. The log is read in pieces of bounded size, regardless of the size of the folder.

The writer may be at work in another thread. Log and queues are complete before the `end` passed to `check`;
the index follows a little later.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.ha.frames import MAX_RECORD_SIZE
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.dispatch import DispatchedEntry, has_place, index_hashes, queue_entries
from rmqcli.codec.records.reading import peek_record, scan_record
from rmqcli.codec.store.consume_queue import ENTRY, ENTRY_SIZE
from rmqcli.codec.store.delay_levels import DEFAULT_LEVELS, DelayLevels
from rmqcli.codec.store.file_names import MAX_OFFSET, file_name
from rmqcli.codec.store.index_file import (
    HEADER,
    ITEM,
    SLOT,
    IndexHeader,
    IndexItem,
    item_position,
    slot_position,
    time_difference,
)
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER
from rmqcli.store.read.consume_queue import batch_topics
from rmqcli.store.read.files import NamedFile, files_in, opened
from rmqcli.store.read.index import index_files
from rmqcli.store.verify.findings import Finding

# The check of an index while it grows: new items against the records that they belong to, in the order of both.
#
# An item is settled when the end in the header of its file is after its record; its slot then leads to it or
# to a newer item, and its link to an older one of the same slot.

_ITEMS_AT_ONCE: Final = 4096


class _Expected(NamedTuple):
    """An index item that a record must have; times in ms."""

    key_hash: int
    offset: int
    timestamp: int


class IndexReadBack:
    """Checks the files of `folder` from the first item of a record at commit-log offset `begin` or later."""

    def __init__(self, folder: Path, begin: int, slots: int) -> None:
        self._folder = folder
        self._begin = begin
        self._slots = slots
        self._expected: deque[_Expected] = deque()
        self._name = ""
        self._number = 1
        """The number of the next item in the file `_name`."""

    @property
    def behind(self) -> int:
        """The number of items that are still expected."""
        return len(self._expected)

    def missing_from(self, end: int) -> int:
        """Return the commit-log offset of the first record with expected items, or `end` without one."""
        return self._expected[0].offset if self._expected else end

    def expect(self, offset: int, timestamp: int, hashes: Sequence[int]) -> None:
        """Add the items of the next record."""
        self._expected += [_Expected(key_hash, offset, timestamp) for key_hash in hashes]

    def check(self) -> Finding | None:
        """Compare the current items of the index with the expected ones and return the first difference.

        Raises OSError. Blocks.
        """
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
                    break  # the last item may be half written
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
            # The caller stopped before the end of this block.
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
        # The writer may have added items since the header was read.
        known = header if newest < header.index_count else _header(handle)
        if not number <= newest < known.index_count:
            return f"slot {slot} does not lead to it, but to item {newest}"
        if item.previous and not self._is_older(handle, number, item):
            return f"the item before it in its chain, {item.previous}, is not in its slot"
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


PIECE: Final = 512 * 1024
"""The bytes of the log that one call checks."""
MOST_BEHIND: Final = 1 << 16
"""The number of index items that may be outstanding before the check waits for the writer of the index."""
_QUEUES_OPEN: Final = 64


class _Wrong(Exception):
    """Carries the finding of damage to `ReadBack.check`."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding


class ReadBack:
    """Checks the folder `store` from commit-log offset `begin` on, which must be the start of a record."""

    def __init__(
        self, store: Path, begin: int, *, slots: int, file_size: int, levels: DelayLevels = DEFAULT_LEVELS
    ) -> None:
        """`slots` is the number of slots of an index file, `file_size` the bytes of a commit-log file."""
        self._store = store
        self._file_size = file_size
        self._levels = levels
        self._index = IndexReadBack(store / "index", begin, slots)
        self._batched: frozenset[str] = frozenset()
        self.position = begin
        """The commit-log offset up to which log and queues have been checked."""

    @property
    def verified(self) -> int:
        """The commit-log offset up to which log, queues and index have been checked."""
        return self._index.missing_from(self.position)

    def check(self, end: int) -> Finding | None:
        """Check one piece of the data before commit-log offset `end` and return the first damage. Blocks.

        Raises OSError for a file that cannot be read. A missing file is damage.
        """
        try:
            if self._index.behind < MOST_BEHIND:
                self._check_log(end)
            return self._index.check()
        except _Wrong as wrong:
            return wrong.finding

    # --- the log

    def _check_log(self, end: int) -> None:
        begin = self.position
        base = begin - begin % self._file_size
        file = self._log_file(base)
        most = min(end, base + self._file_size) - begin
        if most <= 0:
            return
        try:
            with opened(file) as handle, _Queues(self._store) as queues:
                for record, offset in self._records(file, _piece(handle, begin - base, most), most):
                    self._check_record(record, offset, queues)
        except FileNotFoundError:
            raise _Wrong(Finding(file.path, 0, "it is missing")) from None

    def _log_file(self, base: int) -> NamedFile:
        return NamedFile(self._store / "commitlog" / file_name(base), base, self._file_size)

    def _records(self, file: NamedFile, data: bytes, most: int) -> Iterator[tuple[RecordScan, int]]:
        """Yield the whole records of a piece with their offsets; `most` bytes of the file are written."""
        begin, position = self.position, 0
        in_file = begin % self._file_size
        while position < most:
            size, magic = _head(data, position)
            if magic == MAGIC_FILLER and in_file + position + size == file.size:
                position += size
            elif position and position + max(size, FILLER_HEAD_SIZE) > len(data) < most:
                return  # cut off here, whole in the next piece
            else:
                try:
                    record = scan_record(data, position, check_crc=True)
                except CorruptionError as error:
                    raise _Wrong(Finding(file.path, in_file + position, str(error))) from None
                if record.physical_offset != begin + position:
                    text = (
                        f"a record with commit-log offset {record.physical_offset} is at {begin + position}"
                    )
                    raise _Wrong(Finding(file.path, in_file + position, text))
                yield record, begin + position
                position += size
            self.position = begin + position

    def _check_record(self, record: RecordScan, offset: int, queues: _Queues) -> None:
        properties = decode_properties(record.properties)
        # A copy gets only the entry of a record's own queue, as our broker writes it.
        entry = next(queue_entries(record, properties, self._levels), None)
        if entry is not None and not has_place(*entry[:3]):
            file = self._log_file(offset - offset % self._file_size)
            text = f"there is no topic {entry.topic!r} with a queue {entry.queue_id} and offset {entry.queue_offset}"
            raise _Wrong(Finding(file.path, offset % self._file_size, text))
        if entry is not None and not queues.has(entry):
            self._judge(record, entry, queues)
        self._index.expect(offset, record.store_timestamp, index_hashes(record, properties))

    # --- queues

    def _judge(self, record: RecordScan, entry: DispatchedEntry, queues: _Queues) -> None:
        """Raise _Wrong unless there is a valid reason for the missing entry."""
        if record.sys_flag & MessageSysFlag.INNER_BATCH or self._has_batches(entry.topic):
            return
        if self._begins_again(entry, queues):
            return
        folder = queues.folder(entry)
        text = f"no entry for the record at commit-log offset {entry.commit_log_offset}"
        if (found := queues.entry(entry)) is not None and found[1]:
            text = f"it has commit-log offset, size and tags code {found}, its record {entry[3:]}"
        place = entry.queue_offset * ENTRY_SIZE
        file = next((one for one in queues.files(entry) if _holds(one, place)), None)
        path, position = (folder, place) if file is None else (file.path, place - (file.base or 0))
        raise _Wrong(Finding(path, position, f"queue offset {entry.queue_offset}: {text}"))

    def _has_batches(self, topic: str) -> bool:
        if topic not in self._batched:
            self._batched = batch_topics(self._store)
        return topic in self._batched

    def _begins_again(self, entry: DispatchedEntry, queues: _Queues) -> bool:
        """Return True if the topic was deleted and created again after the record, and has a new queue."""
        first = queues.entry(entry._replace(queue_offset=0))
        if first is None or first[0] <= entry.commit_log_offset:
            return False
        offset, size, _ = first
        base = offset - offset % self._file_size
        try:
            with opened(self._log_file(base)) as handle:
                record = scan_record(
                    os.pread(handle, min(max(size, 0), MAX_RECORD_SIZE), offset - base), check_crc=True
                )
        except (OSError, CorruptionError):
            return False
        place = str(record.topic, "utf-8", "replace"), record.queue_id, record.queue_offset
        return record.physical_offset == offset and place == (entry.topic, entry.queue_id, 0)


def _piece(handle: int, position: int, most: int) -> bytes:
    """Return the bytes of a piece, extended to the end of its first record."""
    data = os.pread(handle, min(PIECE, most), position)
    size = _head(data, 0)[0]
    return os.pread(handle, size, position) if len(data) < size <= min(most, MAX_RECORD_SIZE) else data


def _head(data: bytes, position: int) -> tuple[int, int]:
    """Return the size and the magic of a record; zeros if the data ends before them."""
    return peek_record(data, position) if position + FILLER_HEAD_SIZE <= len(data) else (0, 0)


def _holds(file: NamedFile, position: int) -> bool:
    return (file.base or 0) <= position < (file.base or 0) + file.size


class _Open(NamedTuple):
    file: NamedFile
    handle: int


class _Queues:
    """The queues that the records of a piece belong to; a context manager that keeps few files open."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "consumequeue"
        self._stack = ExitStack()
        self._open: dict[tuple[str, int], _Open] = {}

    def __enter__(self) -> _Queues:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def folder(self, entry: DispatchedEntry) -> Path:
        return self._folder / entry.topic / str(entry.queue_id)

    def files(self, entry: DispatchedEntry) -> list[NamedFile]:
        try:
            return files_in(self.folder(entry))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def has(self, entry: DispatchedEntry) -> bool:
        """Return True if the queue has exactly this entry."""
        return self.entry(entry) == entry[3:]

    def entry(self, wanted: DispatchedEntry) -> tuple[int, int, int] | None:
        """Return commit-log offset, size and tags code at the queue offset of an entry, or None."""
        position = wanted.queue_offset * ENTRY_SIZE
        found = self._at(wanted, position)
        if found is None:
            return None
        data = os.pread(found.handle, ENTRY_SIZE, position - (found.file.base or 0))
        return ENTRY.unpack(data) if len(data) == ENTRY_SIZE else None

    def _at(self, wanted: DispatchedEntry, position: int) -> _Open | None:
        key = wanted.topic, wanted.queue_id
        found = self._open.get(key)
        if found is not None and _holds(found.file, position):
            return found
        file = next((one for one in self.files(wanted) if _holds(one, position)), None)
        if file is None:
            return None
        if len(self._open) >= _QUEUES_OPEN:
            self._stack.close()
            self._open.clear()
        try:
            self._open[key] = _Open(file, self._stack.enter_context(opened(file)))
        except FileNotFoundError:  # the queue is being deleted and created again
            return None
        return self._open[key]
