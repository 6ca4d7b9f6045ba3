"""The topics that were deleted while records of theirs are in the commit log: `config/deletedTopics.json`.

Deleting a topic removes its queues; its records go with their log files, much later. Until then a recovery
that read the log would give the records their entries again. Java has no such file, and its topics do come
back.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from broker.disk import Disk, load_table, save_table
from codec.bodies.base import encode_body
from codec.bodies.config import DeletedTopics as Content
from codec.bodies.tables import decode_table


class DeletedTopics:
    """`ends`: for each topic the offset of the commit log before which no record belongs to it."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self.ends: dict[str, int] = {}

    def load(self) -> None:
        """Read the file if there is one. Blocks. StoreDamaged."""
        content = load_table(self._disk, self._path, lambda data: decode_table(Content, data))
        self.ends = dict(content.deleted_topics) if content is not None else {}

    def add(self, topics: Iterable[str], end: int, log_start: int) -> bytes:
        """Note that topics end at `end`, and forgets what the log no longer has; returns the new content."""
        kept = {topic: known for topic, known in self.ends.items() if known > log_start}
        self.ends = kept | dict.fromkeys(topics, end)
        return self._content()

    def cut(self, end: int) -> None:
        """Move ends behind the log to its end, durably: what is stored there next is new. Blocks."""
        if any(known > end for known in self.ends.values()):
            self.ends = {topic: min(known, end) for topic, known in self.ends.items()}
            self.save(self._content())

    def _content(self) -> bytes:
        return encode_body(Content(deleted_topics=self.ends))

    def save(self, content: bytes) -> None:
        """Replace the file by what `add` returned. Blocks."""
        save_table(self._disk, self._path, content)

    def has(self, topic: str, offset: int) -> bool:
        """Return True if the record at `offset` went with its topic."""
        return bool(self.ends) and offset < self.ends.get(topic, 0)
