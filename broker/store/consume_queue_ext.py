"""The extension of one consume queue: tags code, store time and bit map of each entry (Java
`ConsumeQueueExt`, off by default).

* A queue entry holds the address of its extension entry in place of the tags code; an address is below every
  tags code.
* An extension entry lies in one file. The rest of a file is at least 4 bytes and begins with the size -1.
* Messages are found without it: what cannot be written is left out, and the queue entry keeps its tags code.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.disk import Disk
from broker.store.segment import Reservation, Segment
from broker.store.segment_list import SegmentList
from codec.errors import CorruptionError, LocalProtocolError
from codec.store.consume_queue import (
    END_OF_FILE,
    ExtensionEntry,
    address_of,
    decode_extension_entry,
    encode_extension_entry,
    offset_of,
)

END_ROOM: Final = 4
USUAL_SIZE: Final = 64
MAX_SIZE: Final = 32767
"""The size of an entry is an int16."""
_END_MARK: Final = struct.pack(">h", END_OF_FILE)
Require = Callable[[Segment, int, int, int], object]
"""`Readiness.require`."""

_log = logging.getLogger(__name__)


class QueueExtension:
    """`end` is the offset of the next entry in bytes, `flushed` the end of what is on the disk."""

    __slots__ = ("end", "flushed", "segments")

    def __init__(self, disk: Disk, folder: Path, file_size: int) -> None:
        self.segments = SegmentList(disk, folder, file_size, "mappedFileSizeConsumeQueueExt")
        self.end = 0
        self.flushed = 0

    def put(self, tags_code: int, store_timestamp: int, bit_map: bytes | None = None) -> int:
        """Add an entry. Returns its address, or the tags code itself if it cannot be kept."""
        try:
            data = encode_extension_entry(ExtensionEntry(tags_code, store_timestamp, bit_map or b""))
            if len(data) > self.segments.size - END_ROOM:
                return tags_code
            position = self._place(len(data))
        except (OSError, LocalProtocolError) as error:
            _log.warning("%s accepts no entry: %s", self.segments.folder, error)
            return tags_code
        segment = self.segments.segments[-1]
        segment.view[position : position + len(data)] = data
        self.end = segment.start + position + len(data)
        return address_of(segment.start + position)

    def missing_file(self, entries: int) -> tuple[SegmentList, int] | None:
        """As `ConsumeQueue.missing_file`, for entries with bit maps of the usual size."""
        segments = self.segments
        start = segments.segments[-1].end if segments.segments else 0
        room = start - self.end - END_ROOM if segments.segments else 0
        return None if room >= entries * USUAL_SIZE or segments.is_ready(start) else (segments, start)

    def unreserved(self, entries: int) -> Reservation | None:
        """As `ConsumeQueue.unreserved`, for entries with bit maps of the usual size."""
        return self.segments.unreserved(self.end, self.end + entries * USUAL_SIZE + END_ROOM)

    def _place(self, size: int) -> int:
        """Position in the last file for an entry, in a new file if it does not fit there."""
        segments = self.segments
        if not segments.segments:
            segments.append(0).reserve(size)
            return 0
        last = segments.segments[-1]
        position = self.end - last.start
        if position + size <= segments.size - END_ROOM:
            last.reserve(position + size)
            return position
        last.reserve(position + END_ROOM)
        segments.append(last.end).reserve(size)
        last.view[position : position + len(_END_MARK)] = _END_MARK
        return 0

    def get(self, address: int, require: Require | None = None) -> ExtensionEntry | None:
        """Return the entry at an address; None when there is none. `require` is called before pages are read."""
        offset = offset_of(address)
        segment = self.segments.find(offset)
        if segment is None:
            return None
        position = offset - segment.start
        if require is not None:
            written = min(self.end - segment.start, segment.size)
            require(segment, position, min(MAX_SIZE, segment.size - position), written)
        try:
            return decode_extension_entry(segment.view, position)
        except CorruptionError:
            return None

    def end_behind(self, address: int | None) -> bool:
        """Remove what follows the entry at the last address that the queue holds (None: everything). Blocks.

        False when that entry does not exist: entries of the queue are then lost.
        """
        if address is None:
            self.segments.cut(0)
            self.segments.drop_from(0)
            self.segments.disk.remove_empty_folder(self.segments.folder)
            self.end = self.flushed = 0
            return True
        entry = self.get(address)
        if entry is None:
            return False
        self.end = self.flushed = offset_of(address) + entry.size
        self.segments.cut(self.end)
        return True

    def take_before(self, address: int) -> list[Segment]:
        """Take out the files that end before an address, never the last one."""
        taken = []
        while len(self.segments.segments) > 1 and self.segments.segments[0].end < offset_of(address):
            taken.append(self.segments.take_first())
        return taken

    def close(self) -> None:
        self.segments.close()

    def take_all(self) -> Callable[[], None]:
        """Empty it. The result removes its files; it blocks."""
        self.end = self.flushed = 0
        return self.segments.take_all()
