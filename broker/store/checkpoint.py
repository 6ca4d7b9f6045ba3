"""The `checkpoint` file: up to which store times log, queues and index were flushed (Java `StoreCheckpoint`).

Recovery after an unclean stop starts 3 s before the smaller of the first two. A file that is missing, short, or tells
times that cannot be (negative, or more than a day ahead) says nothing: recovery then reads the whole log.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from codec.errors import CorruptionError
from codec.store import checkpoint as layout

__all__ = ["Checkpoint"]

DAY_MS: Final = 86_400_000


class Checkpoint:
    """Three store timestamps in ms; 0 means nothing is known."""

    __slots__ = ("_path", "index", "logics", "physic")

    def __init__(self, path: Path, now_ms: int) -> None:
        """Reads the file if there is one."""
        self._path = path
        self.physic, self.logics, self.index = _read(path, now_ms + DAY_MS)

    @property
    def min_timestamp(self) -> int:
        """Everything stored before is safe in log and queues."""
        return max(min(self.physic, self.logics) - layout.SAFETY, 0)

    @property
    def min_timestamp_index(self) -> int:
        """Everything stored before is safe in log, queues and index."""
        return min(self.min_timestamp, self.index)

    def content(self) -> bytes:
        """What the file should hold now."""
        return layout.encode_checkpoint(layout.Checkpoint(self.physic, self.logics, self.index))

    def save(self, content: bytes) -> None:
        """Writes what `content` gave, and flushes. Blocking: made for a worker thread."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(fd, content, 0)
            os.fdatasync(fd)
        finally:
            os.close(fd)


def _read(path: Path, latest: int) -> tuple[int, int, int]:
    try:
        known = layout.decode_checkpoint(path.read_bytes())
    except (FileNotFoundError, CorruptionError):
        return 0, 0, 0
    times = known.physic_msg_timestamp, known.logics_msg_timestamp, known.index_msg_timestamp
    return times if all(0 <= timestamp <= latest for timestamp in times) else (0, 0, 0)
