"""The `checkpoint` file: up to which store times log, queues and index were flushed (Java `StoreCheckpoint`).

Recovery after an unclean stop starts 3 s before the smaller of the first two. A file that is missing, short,
or holds impossible times (negative, or more than a day ahead) says nothing: recovery then reads the whole
log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from broker.disk import Disk
from codec.errors import CorruptionError
from codec.store import checkpoint as layout

DAY_MS: Final = 86_400_000


class Checkpoint:
    """Three store timestamps in ms; 0 means nothing is known."""

    __slots__ = ("_disk", "_path", "index", "logics", "physic")

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self.physic = self.logics = self.index = 0

    def load(self, now_ms: int) -> None:
        """Reads the file if there is one. Blocks."""
        try:
            known = layout.decode_checkpoint(self._disk.read(self._path))
        except (FileNotFoundError, CorruptionError):
            return
        times = known.physic_msg_timestamp, known.logics_msg_timestamp, known.index_msg_timestamp
        if all(0 <= timestamp <= now_ms + DAY_MS for timestamp in times):
            self.physic, self.logics, self.index = times

    @property
    def times(self) -> layout.Checkpoint:
        """What the file says if it is saved now."""
        return layout.Checkpoint(self.physic, self.logics, self.index)

    def content(self) -> bytes:
        """The content of the file as of now."""
        return layout.encode_checkpoint(self.times)

    def save(self, content: bytes) -> None:
        """Writes what `content` returned, and syncs. Blocks."""
        self._disk.write(self._path, content)
        self._disk.sync_file(self._path)
