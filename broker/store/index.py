"""The message index: finds messages by key, UNIQ_KEY included (Java `IndexService`).

Items are gathered and written `BATCH` or more at a time, before every query, at every flush and at the stop: that costs a
send less, and what a killed process had gathered is put again by recovery. A batch is small enough to be written while a
client that has been answered makes its next request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from broker.store.errors import StoreSizeMismatch
from broker.store.index_file import IndexFile, IndexItem
from broker.store.values import Arrival
from codec.hashing import index_key_hash
from codec.store.dispatch import index_keys
from codec.store.file_names import index_file_name, index_file_name_after
from codec.store.index_file import index_file_size

__all__ = ["Index", "IndexHits"]

BATCH = 32
RELEASE_ITEMS = 1 << 16


class IndexHits(NamedTuple):
    """Offsets by file and chain, newest first; the end values of the newest file."""

    offsets: list[int]
    last_timestamp: int
    last_offset: int


class Index:
    """All index files of a store, oldest first."""

    __slots__ = (
        "_completed",
        "_folder",
        "_items",
        "_items_since_release",
        "_now_ms",
        "_pending",
        "_slots",
        "files",
    )

    def __init__(
        self,
        folder: Path,
        slots: int,
        items: int,
        *,
        now_ms: Callable[[], int],
        completed: Callable[[IndexFile], None],
    ) -> None:
        """`completed` is told of every file that became full."""
        self._folder = folder
        self._slots = slots
        self._items = items
        self._now_ms = now_ms
        self._completed = completed
        self._pending: list[IndexItem] = []
        self._items_since_release = 0
        self.files: list[IndexFile] = []

    def load(self) -> None:
        """Maps the files. StoreSizeMismatch names a file of another geometry."""
        size = index_file_size(self._slots, self._items)
        for path in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            if not path.name.isdigit():
                continue
            length = path.stat().st_size
            if length == 0:
                path.unlink()
                continue
            if length != size:
                raise StoreSizeMismatch(
                    f"{path} is {length} bytes long, but maxHashSlotNum {self._slots} and maxIndexNum {self._items} "
                    f"make {size}: set them as the folder was written with, or move the index folder away (it is rebuilt)"
                )
            self.files.append(IndexFile(path, self._slots, self._items))

    def drop_after(self, timestamp: int) -> None:
        """Removes files that were not complete and flushed at `timestamp` ms (load after an unclean stop)."""
        for file in [file for file in self.files if file.end_timestamp > timestamp]:
            self.files.remove(file)
            file.destroy()

    def take_back(self) -> None:
        """After an unclean stop: takes back the last message, whose keys may be there in part, and what came behind it."""
        while self.files:
            self.files[-1].take_back()
            if self.files[-1].count > 1:
                return
            self.files.pop().destroy()

    def truncate(self, end: int) -> None:
        """Removes files that know messages at or after `end`: what they say of those will not be true any more."""
        for file in [file for file in self.files if file.end_offset >= end and file.count > 1]:
            self.files.remove(file)
            file.destroy()

    @property
    def end_offset(self) -> int:
        """Commit-log offset of the last message that was indexed; -1 if none."""
        return (
            self.files[-1].end_offset
            if self.files and (self.files[-1].count > 1 or len(self.files) > 1)
            else -1
        )

    def add(self, hashes: Iterable[int], offset: int, timestamp: int) -> None:
        """Adds the items of one message, given the hashes of its keys in order."""
        self._pending += [(key_hash, offset, timestamp) for key_hash in hashes]
        if len(self._pending) >= BATCH:
            self.drain()

    def add_arrivals(self, arrivals: Iterable[Arrival]) -> None:
        """The same for messages that were stored just now."""
        put = self._pending.append
        for message, result in arrivals:
            topic, properties = message.topic, message.properties
            offset, timestamp = result.physical_offset, result.store_timestamp
            for key in index_keys(properties):
                put((index_key_hash(topic, key), offset, timestamp))
        if len(self._pending) >= BATCH:
            self.drain()

    def drain(self) -> None:
        """Writes what was gathered."""
        items, self._pending = self._pending, []
        start = 0
        while start < len(items):
            file = self._current()
            room = file.capacity - file.count
            file.put(items[start : start + room])
            start += room
        self._release(len(items))

    def _release(self, count: int) -> None:
        self._items_since_release += count
        if self._items_since_release >= RELEASE_ITEMS:
            self._items_since_release = 0
            for file in self.files:
                file.release_pages()

    def _current(self) -> IndexFile:
        if self.files and not self.files[-1].full:
            return self.files[-1]
        self._folder.mkdir(parents=True, exist_ok=True)
        file = IndexFile(self._free_name(), self._slots, self._items)
        if self.files:
            full = self.files[-1]
            file.seed(full.end_timestamp, full.end_offset)
            self._completed(full)
        self.files.append(file)
        return file

    def _free_name(self) -> Path:
        """The local creation time, yyyyMMddHHmmssSSS, or what keeps the names in order if the clock went back."""
        return self._folder / index_file_name_after(
            self.files[-1].path.name if self.files else "", index_file_name(self._now_ms())
        )

    def query(self, topic: str, key: str, limit: int, begin: int, end: int) -> IndexHits:
        """Offsets of messages that may have the key (hash equality), newest first, times in ms at second precision."""
        self.drain()
        key_hash = index_key_hash(topic, key)
        offsets: dict[int, None] = {}
        for file in reversed(self.files):
            if file.overlaps(begin, end):
                offsets.update(dict.fromkeys(file.select(key_hash, limit - len(offsets), begin, end)))
            if file.begin_timestamp < begin or len(offsets) >= limit:
                break
        newest = self.files[-1] if self.files else None
        return IndexHits(
            list(offsets), newest.end_timestamp if newest else 0, newest.end_offset if newest else 0
        )

    def drop_expired(self, physical_min: int) -> int:
        """Removes files that end before `physical_min`, never the last. Returns how many."""
        dropped = 0
        while len(self.files) > 1 and self.files[0].end_offset < physical_min:
            self.files.pop(0).destroy()
            dropped += 1
        return dropped

    def close(self) -> None:
        """Lets go of the files; what was gathered and not drained is lost, as for a killed process."""
        self._pending = []
        for file in self.files:
            file.close()
        self.files = []
