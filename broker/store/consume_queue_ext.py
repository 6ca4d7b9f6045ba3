"""The extension of one consume queue: tags code, store time and bit map of each unit (Java `ConsumeQueueExt`, off by default).

* A queue unit holds the address of its extension unit in place of the tags code; an address is below every tags code.
* A unit lies in one file. What is left of a file is at least 4 bytes and begins with the size -1.
* Nothing here is needed to find a message. What cannot be written is left out, and the queue unit keeps its tags code.
"""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from typing import Final

from broker.store.segment_list import SegmentList
from codec.errors import CorruptionError, LocalProtocolError
from codec.store.consume_queue_ext import END_OF_FILE, Unit, address_of, decode_unit, encode_unit, offset_of

__all__ = ["QueueExtension"]

END_ROOM: Final = 4
_END_MARK: Final = struct.pack(">h", END_OF_FILE)
_log = logging.getLogger(__name__)


class QueueExtension:
    """`end` is the offset of the next unit in bytes, `flushed` what is on the disk."""

    __slots__ = ("_segments", "end", "flushed")

    def __init__(self, folder: Path, file_size: int) -> None:
        self._segments = SegmentList(folder, file_size, "mappedFileSizeConsumeQueueExt")
        self.end = 0
        self.flushed = 0

    @property
    def segments(self) -> SegmentList:
        return self._segments

    def put(self, tags_code: int, store_timestamp: int, bit_map: bytes | None = None) -> int:
        """Adds a unit. What the queue unit has to hold: its address, or the tags code itself if it cannot be kept."""
        try:
            data = encode_unit(Unit(tags_code, store_timestamp, bit_map or b""))
            if len(data) > self._segments.size - END_ROOM:
                return tags_code
            position = self._place(len(data))
        except (OSError, LocalProtocolError) as error:
            _log.warning("%s takes no unit: %s", self._segments.folder, error)
            return tags_code
        segment = self._segments.segments[-1]
        segment.view[position : position + len(data)] = data
        self.end = segment.start + position + len(data)
        return address_of(segment.start + position)

    def _place(self, size: int) -> int:
        """Position in the last file for a unit, in a new file if it does not fit there."""
        segments = self._segments
        if not segments.segments:
            segments.create(0)
            return 0
        last = segments.segments[-1]
        position = self.end - last.start
        if position + size <= segments.size - END_ROOM:
            return position
        segments.create(last.end)
        last.view[position : position + len(_END_MARK)] = _END_MARK
        return 0

    def get(self, address: int) -> Unit | None:
        """The unit at an address; None when there is none."""
        offset = offset_of(address)
        segment = self._segments.find(offset)
        if segment is None:
            return None
        try:
            return decode_unit(segment.view, offset - segment.start)
        except CorruptionError:
            return None

    def end_behind(self, address: int | None) -> bool:
        """Removes what follows the unit at the last address that the queue holds (None: everything).

        False when that unit is not there: units of the queue are then lost.
        """
        if address is None:
            self._segments.destroy()
            self.end = self.flushed = 0
            return True
        unit = self.get(address)
        if unit is None:
            return False
        self.end = self.flushed = offset_of(address) + unit.size
        self._segments.cut(self.end)
        return True

    def drop_before(self, address: int) -> None:
        """Removes the files that end before an address, never the last one."""
        segments = self._segments
        while len(segments.segments) > 1 and segments.segments[0].end < offset_of(address):
            segments.drop_first()

    def load(self) -> None:
        """Maps the files. StoreSizeMismatch, StoreDamaged."""
        self._segments.load()

    def close(self) -> None:
        self._segments.close()

    def destroy(self) -> None:
        self.end_behind(None)
