"""The `checkpoint` file: how far log, queues and index were flushed (Java `StoreCheckpoint`).

Java keeps store times; its recovery after a power cut starts 3 s before the smaller of the first two. Times
are meaningless once a clock was set back, so the file also has offsets (codec/store/checkpoint.py). Nothing
is known if the file is missing or short; impossible times (negative, or more than a day ahead) are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rmqcli.broker.disk import Disk, load_table, save_table
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.config import DeletedTopics as Content
from rmqcli.codec.bodies.tables import decode_table
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.store import checkpoint as layout

DAY_MS: Final = 86_400_000
OPEN: Final = -1
"""The queues are in use and change."""
REBUILDING: Final = -2
"""Queues were being rebuilt: any entry of them may be missing."""
_log = logging.getLogger(__name__)


class Checkpoint:
    """Three store timestamps in ms, 0 if unknown, and two commit-log offsets, -1 if unknown.

    Records before `log_offset` and their queue entries are on the disk, as are full index files that end at
    or before `index_offset`. `queues_crc` is `ConsumeQueues.crc` at a clean stop, otherwise OPEN or
    REBUILDING. `master_flushed` is the flushed offset that a master of 5.x reported to this slave, 0 if none.
    `is_current` is False if the times are not those that were saved with the offsets; `is_damaged` is True if
    the file, or our addition to it, could not be read.
    """

    __slots__ = (
        "_disk",
        "_path",
        "index",
        "index_offset",
        "is_current",
        "is_damaged",
        "log_offset",
        "logics",
        "master_flushed",
        "physic",
        "queues_crc",
    )

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self.physic = self.logics = self.index = self.master_flushed = 0
        self.log_offset = self.index_offset = -1
        self.queues_crc = OPEN
        self.is_current = self.is_damaged = False

    def load(self, now_ms: int) -> None:
        """Read the file if there is one. Blocks."""
        try:
            content = self._disk.read(self._path)
            known = layout.decode_checkpoint(content)
        except FileNotFoundError:
            return
        except CorruptionError:
            self.is_damaged = True
            return
        self.is_damaged = len(content) != layout.FILE_SIZE
        times = known[:3]
        if all(0 <= timestamp <= now_ms + DAY_MS for timestamp in times):
            self.physic, self.logics, self.index = times
        self.master_flushed = max(known.master_flushed_offset, 0)
        try:
            safe_point = layout.decode_safe_point(content)
        except CorruptionError as error:
            _log.warning("%s: %s", self._path, error)
            self.is_damaged = True
            return
        if safe_point is not None:
            self.log_offset, self.index_offset, self.queues_crc, saved_times = safe_point
            # Java writes its times and leaves our bytes alone: other times mean that it has run since.
            self.is_current = saved_times == times

    @property
    def numbers(self) -> layout.Checkpoint:
        """The numbers that the file holds if it is saved now."""
        return layout.Checkpoint(self.physic, self.logics, self.index, self.master_flushed)

    def content(self) -> bytes:
        """Return the current content of the file."""
        safe_point = layout.SafePoint(self.log_offset, self.index_offset, self.queues_crc)
        return layout.encode_checkpoint(self.numbers, safe_point)

    def cut(self, end: int) -> None:
        """Move offsets after `end`, where the log now ends, to `end`, durably. Blocks."""
        if max(self.log_offset, self.index_offset) > end:
            self.log_offset = min(self.log_offset, end)
            self.index_offset = min(self.index_offset, end)
            self.save(self.content())

    def save(self, content: bytes) -> None:
        """Write the result of `content`, and sync the file. Blocks."""
        self._disk.write(self._path, content)
        self._disk.sync_file(self._path)


# The topics that were deleted while records of theirs are in the commit log: `config/deletedTopics.json`.
#
# Deleting a topic removes its queues; its records are removed with their log files, much later. Until then, a
# recovery that reads the log would recreate their entries. Java has no such file, so its deleted topics do
# reappear.


class DeletedTopics:
    """The table of deleted topics. `ends` has, for each topic, the commit-log offset before which no record
    belongs to it."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self.ends: dict[str, int] = {}

    def load(self) -> None:
        """Read the file if there is one. Blocks. Raises StoreDamaged."""
        content = load_table(self._disk, self._path, lambda data: decode_table(Content, data))
        self.ends = dict(content.deleted_topics) if content is not None else {}

    def add(self, topics: Iterable[str], end: int, log_start: int) -> bytes:
        """Record that topics were deleted at offset `end`, and drop marks before the start of the log. Return
        the new content.
        """
        kept = {topic: known for topic, known in self.ends.items() if known > log_start}
        self.ends = kept | dict.fromkeys(topics, end)
        return self._content()

    def cut(self, end: int) -> None:
        """Move marks after the end of the log to its end, durably: later records there are new. Blocks."""
        if any(known > end for known in self.ends.values()):
            self.ends = {topic: min(known, end) for topic, known in self.ends.items()}
            self.save(self._content())

    def _content(self) -> bytes:
        return encode_body(Content(deleted_topics=self.ends))

    def save(self, content: bytes) -> None:
        """Replace the file with the result of `add`. Blocks."""
        save_table(self._disk, self._path, content)

    def has(self, topic: str, offset: int) -> bool:
        """Return True if the record at `offset` was deleted with its topic."""
        return bool(self.ends) and offset < self.ends.get(topic, 0)
