"""The extension of one consume queue: tags code, store time and bit map of each entry (Java
`ConsumeQueueExt`, off by default).

* A queue entry holds the address of its extension entry in place of the tags code; every address is less than
  any tags code.
* An extension entry never crosses a file boundary. The unused rest of a file is at least 4 bytes and begins
  with the size -1.
* The extension is optional: if an entry cannot be written, it is omitted, and the queue entry keeps its tags
  code.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rmqcli.broker.disk import Disk
from rmqcli.broker.store.segment import Reservation, Segment
from rmqcli.broker.store.segment_list import SegmentList
from rmqcli.codec.errors import CorruptionError, LocalProtocolError
from rmqcli.codec.store.consume_queue import (
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
    """The extension of one queue. `end` is the byte offset of the next entry; everything before `flushed` is
    on the disk."""

    __slots__ = ("end", "flushed", "segments")

    def __init__(self, disk: Disk, folder: Path, file_size: int) -> None:
        self.segments = SegmentList(disk, folder, file_size, "mappedFileSizeConsumeQueueExt")
        self.end = 0
        self.flushed = 0

    def put(self, tags_code: int, store_timestamp: int, bit_map: bytes | None = None) -> int:
        """Add an entry. Return its address, or the tags code itself if the entry cannot be stored."""
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
        """Like `ConsumeQueue.missing_file`, for entries with bit maps of the usual size."""
        segments = self.segments
        start = segments.segments[-1].end if segments.segments else 0
        room = start - self.end - END_ROOM if segments.segments else 0
        return None if room >= entries * USUAL_SIZE or segments.is_ready(start) else (segments, start)

    def unreserved(self, entries: int) -> Reservation | None:
        """Like `ConsumeQueue.unreserved`, for entries with bit maps of the usual size."""
        return self.segments.unreserved(self.end, self.end + entries * USUAL_SIZE + END_ROOM)

    def _place(self, size: int) -> int:
        """Return the position for an entry in the last file, which is a new one if the entry does not fit
        elsewhere."""
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
        # Only now: had the disk refused the next file, this one would go on.
        last.view[position : position + len(_END_MARK)] = _END_MARK
        return 0

    def get(self, address: int, require: Require | None = None) -> ExtensionEntry | None:
        """Return the entry at an address; None if there is none. `require` is called before pages are
        read."""
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
        """Remove everything after the entry at the last address in the queue (None: everything). Blocks.

        Return False if that entry does not exist: extension entries have been lost.
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
        """Detach and return the files that end before an address, never the last one."""
        taken = []
        while len(self.segments.segments) > 1 and self.segments.segments[0].end < offset_of(address):
            taken.append(self.segments.take_first())
        return taken

    def close(self) -> None:
        self.segments.close()

    def take_all(self) -> Callable[[], None]:
        """Empty the extension and return a function that removes its files; that function blocks."""
        self.end = self.flushed = 0
        return self.segments.take_all()
