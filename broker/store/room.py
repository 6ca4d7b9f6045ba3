"""Room for messages: the next files, and blocks and pages of those in use.

Nothing is changed where NotReady is raised: the disk has to do something first, while `Readiness` is strict.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.store.commit_log import CommitLog
from broker.store.consume_queue import ConsumeQueue
from broker.store.holds import Hold
from broker.store.readiness import Readiness
from broker.store.segment import Segment
from broker.store.segment_list import SegmentList
from broker.store.values import AppendResult, PutStatus
from codec.store.record_layout import FILLER_HEAD_SIZE

NO_FILE = AppendResult(PutStatus.CREATE_MAPEDFILE_FAILED)
_ILLEGAL = AppendResult(PutStatus.MESSAGE_ILLEGAL)
_log = logging.getLogger(__name__)


class Room:
    """Brings what the next record and the next entry go on."""

    def __init__(self, log: CommitLog, readiness: Readiness) -> None:
        self._log = log
        self._readiness = readiness

    def make(self, size: int) -> AppendResult | None:
        """Make the log ready for a run of `size` bytes, in the next file if need be.

        A refusal if it is too long or the file cannot be created.
        """
        segments = self._log.segments
        if size + FILLER_HEAD_SIZE > segments.size:
            return _ILLEGAL
        if not self._log.is_ready:
            self._readiness.require_pages(self._log.shared_pages(), self._log.set_ready)
            return None
        missing = self._log.unreserved(size)
        if missing is not None:
            return None if self._has_room(*missing, self._log.note_reserved) else NO_FILE
        if self._log.fits(size):  # a worker has reserved the blocks, and not said so yet
            self._log.note_reserved()
            return None
        return self.next_file()

    def next_file(self) -> AppendResult | None:
        """End the current file of the log and begin the next one; a refusal if it cannot be created.

        NotReady if it has to be created first.
        """
        segments = self._log.segments
        if self._readiness.strict and self._is_refused(segments, self._log.next_start):
            return NO_FILE
        try:
            self._log.roll()
        except OSError as error:
            _log.error("the next commit log file cannot be created: %s", error)
            return NO_FILE
        return None

    def is_ready(self, queue: ConsumeQueue, entries: int, hold: Hold | None = None) -> bool:
        """Return False if the disk refused the file or the blocks that so many entries need.

        NotReady if it has to be asked for them first, or to read a page that the entries go on, or if the
        queue is on `hold` for others.
        """
        if self._readiness.strict:
            if queue.hold is not None and queue.hold is not hold:
                queue.hold.require_end()
            missing = queue.missing_file(entries)
            if missing is not None and self._is_refused(*missing):
                return False
        if queue.next_offset >= queue.ready_until:
            self._readiness.require_pages(queue.shared_pages(), queue.set_ready)
        unreserved = queue.unreserved(entries)
        return unreserved is None or self._has_room(*unreserved, queue.set_ready)

    def _has_room(self, segment: Segment, end: int, done: Callable[[], None]) -> bool:
        """Have blocks of a file reserved up to a position, and call `done`. False if the disk is full.

        NotReady if it has to be asked first.
        """
        error = self._readiness.refusals.pop(segment, None)
        if error is None and self._readiness.strict:
            raise self._readiness.reserving(segment, end, done)
        if error is None:
            try:
                segment.reserve(end)
                done()
                return True
            except OSError as refusal:
                error = refusal
        _log.error("%s cannot grow: %s", segment.path, error)
        self._log.space_wanted()
        return False

    def _is_refused(self, segments: SegmentList, start: int) -> bool:
        if segments.is_ready(start):
            return False
        error, segments.refused = segments.refused, None
        if error is None:
            raise self._readiness.building(segments, start)
        _log.error("a file cannot be created in %s: %s", segments.folder, error)
        self._log.space_wanted()
        return True
