"""Entries and index items that match the records of the log, determined while the log itself is checked.

The check of the log reports the entries and items that its records must have; they are compared with those in
the files some megabytes at a time, in log order. The checks of queues and index then examine only the
remaining ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from rmqcli.codec.core.agreement import ItemMatcher, Range, agreeing_entries
from rmqcli.codec.core.dispatch import EntryRun
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.store.consume_queue import ENTRY_SIZE
from rmqcli.codec.store.index_file import item_position
from rmqcli.store.read.consume_queue import Queue
from rmqcli.store.read.files import NamedFile, mapped, opened
from rmqcli.store.read.index import IndexGeometry

_HELD_BYTES = 16 << 20
"""The bytes of entries and items that are collected before they are compared."""
_BLOCK_ITEMS = 1 << 15

QueueKey = tuple[str, int]


@dataclass(slots=True)
class _Expected:
    """The entries that a queue must have for queue offsets [first, end)."""

    first: int
    end: int
    pieces: list[bytes]


class _IndexFile(NamedTuple):
    """A file, its number of slots, and the number after its last item; item times count from `since` (ms)."""

    file: NamedFile
    slots: int
    end: int
    since: int


class Agreement:
    """Collects the entries and items that the records of a log require, in log order.

    `index` are the index files with a sound header, `log_begin` is the offset of the first byte of the log.
    """

    def __init__(self, queues: Iterable[Queue], index: Iterable[IndexGeometry], log_begin: int) -> None:
        self.log_begin = log_begin
        self._files = {
            (queue.topic, queue.queue_id): queue.files.files
            for queue in queues
            if queue.topic is not None and queue.queue_id is not None
        }
        self._index = list(map(_items_of, index))
        self._file, self._item = 0, 1
        self._entries: dict[QueueKey, list[Range]] = {}
        self._items: dict[NamedFile, list[Range]] = {}
        self._runs: dict[QueueKey, list[_Expected]] = {}
        self._keyed: list[bytes] = []
        self._held = 0

    def add(self, runs: Iterable[EntryRun], keyed: bytes) -> None:
        """Add the entries and index items of further records, in the form of `rmqcli.codec.core.dispatch`."""
        for run in runs:
            key = run.topic, run.queue_id
            if key not in self._files:
                continue
            mine = self._runs.setdefault(key, [])
            # Joined, so that a queue is compared in few reads, regardless of the number of runs.
            if mine and mine[-1].end == run.first:
                mine[-1].pieces.append(run.entries)
                mine[-1].end = run.end
            else:
                mine.append(_Expected(run.first, run.end, [run.entries]))
            self._held += (run.end - run.first) * ENTRY_SIZE
        if self._index:
            self._keyed.append(keyed)
            self._held += len(keyed)
        if self._held >= _HELD_BYTES:
            self.finish()

    def finish(self) -> None:
        """Compare the entries and items collected so far."""
        for key, runs in self._runs.items():
            for run in runs:
                self._compare_run(key, run.first, b"".join(run.pieces))
        self._match_items(ItemMatcher(b"".join(self._keyed)))
        self._runs, self._keyed, self._held = {}, [], 0

    def entries_of(self, key: tuple[str | None, int | None]) -> Sequence[Range]:
        """Return the ranges of queue offsets whose entries agree."""
        topic, queue_id = key
        known = self._entries.get((topic, queue_id), []) if topic is not None and queue_id is not None else []
        return _joined(known)

    def items_of(self, file: NamedFile) -> Sequence[Range]:
        """Return the ranges of item numbers of an index file whose items agree."""
        return self._items.get(file, ())

    def _compare_run(self, key: QueueKey, first: int, entries: bytes) -> None:
        with_codes = key[0] != SystemTopic.SCHEDULE  # there the tags code is a due time
        begin, end = first * ENTRY_SIZE, first * ENTRY_SIZE + len(entries)
        found = self._entries.setdefault(key, [])
        for file in self._files[key]:
            base = file.base or 0
            low, high = max(begin, base), min(end, base + file.size)
            if low >= high:
                continue
            # Retention of a running broker may have removed the file since it was listed.
            with suppress(FileNotFoundError), opened(file) as handle:
                theirs = os.pread(handle, high - low, low - base)
                ours = entries[low - begin : high - begin]
                for one in agreeing_entries(ours, theirs, low // ENTRY_SIZE, with_codes):
                    _append(found, one)

    def _match_items(self, matcher: ItemMatcher) -> None:
        while self._file < len(self._index):
            file, slots, end, since = self._index[self._file]
            found = self._items.setdefault(file, [])
            with mapped(file) as data:
                while self._item < end:
                    stop = min(self._item + _BLOCK_ITEMS, end)
                    raw = bytes(data[item_position(slots, self._item) : item_position(slots, stop)])
                    agreeing, count = matcher.match(raw, since)
                    for first, last in agreeing:
                        _append(found, (self._item + first, self._item + last))
                    self._item += count
                    # The next items belong to records that are not collected yet.
                    if self._item < stop:
                        return
            self._file, self._item = self._file + 1, 1


def _items_of(index: IndexGeometry) -> _IndexFile:
    end = min(index.header.index_count, index.capacity)
    return _IndexFile(index.file, index.slots, end, index.header.begin_timestamp)


def _append(found: list[Range], one: Range) -> None:
    if found and found[-1][1] == one[0]:
        found[-1] = found[-1][0], one[1]
    else:
        found.append(one)


def _joined(found: Iterable[Range]) -> list[Range]:
    """Return the ranges sorted and merged.

    They overlap if a topic was deleted and created again, because two records then have the same queue
    offset.
    """
    joined: list[Range] = []
    for begin, end in sorted(found):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined
