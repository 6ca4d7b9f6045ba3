"""Preparation, in worker threads, of files and pages before the writer needs them (Java
`AllocateMappedFileService`).

Files: the next file of the commit log is created as soon as the last one is begun, that of a consume queue or
the index when the last one is nearly full. Pages of the commit log: the first access to a page costs the
writer more than everything else that the kernel does for a message (memory is found and zeroed, 2 µs per
KB), so the next megabytes are allocated in advance; not with SYNC_FLUSH, because every flush would then write
pages that are still empty.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

import trio

from rmqcli.broker.store.batches import Hold
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.flush import Flusher
from rmqcli.broker.store.index import Index
from rmqcli.broker.store.readiness import InThread, Readiness
from rmqcli.broker.store.segment import DISK_FULL, Segment
from rmqcli.broker.store.segment_list import SegmentList
from rmqcli.broker.store.values import AppendResult, PutStatus
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE

PERIOD_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Preparer:
    """Prepares files, and flushes index files that became full."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        flusher: Flusher,
        readiness: Readiness,
        in_thread: InThread,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._flusher = flusher
        self._readiness = readiness
        self._in_thread = in_thread
        self._wake = trio.Event()
        if index is not None:
            index.completed = self.wake

    def wake(self) -> None:
        """Check now which files and pages to prepare."""
        self._wake.set()

    async def run(self) -> None:
        """Run the service."""
        self._log.rolled = self._log.blocks_wanted = self.wake
        if self._index is not None:
            self._index.deferred = True
            self._index.file_wanted = self.wake
        while True:
            await self._prepare()
            with trio.move_on_after(PERIOD_SECONDS) as period:
                await self._wake.wait()
            if period.cancelled_caught and self._index is not None:
                self._index.resident = False  # pages that are not used may be evicted from memory
            self._wake = trio.Event()

    async def _prepare(self) -> None:
        if (missing := self._log.grows) is not None:
            with contextlib.suppress(OSError):  # the writer will request it again and get the error
                await self._in_thread(missing[0].reserve, missing[1])
            self._log.note_reserved()
        segments = self._log.segments
        if segments.segments:
            await self._readiness.build(segments, segments.segments[-1].end)
        await self.index_file()
        await self._flusher.flush_index_files()
        for queue in self._queues.take_filling():
            await self._readiness.build(queue.segments, queue.next_file_start())

    async def index_file(self) -> None:
        """Provide the file, or the pages of the last one, that index items need now or soon; write the
        items."""
        index = self._index
        if index is None:
            return
        # Reset for the attempt, and restored if it fails: `refuse` logs a full disk only once.
        refused, index.refused = index.refused, False
        try:
            if index.should_prepare:
                index.offer(await self._in_thread(index.build))
            if index.waits:
                await self._in_thread(index.files[-1].load_pages)
                index.resident = True
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            index.refused = refused
            index.refuse(error)
        index.drain()


async def allocate_pages(log: CommitLog, in_thread: InThread) -> None:
    """Allocate pages of the log ahead of the writer; return if the kernel does not support that."""
    wanted = trio.Event()

    def want() -> None:
        wanted.set()

    log.pages_wanted = want
    while True:
        await wanted.wait()
        wanted = trio.Event()
        if not await in_thread(_populate, *log.pages_ahead()):
            return
        log.note_reserved()


def _populate(segment: Segment, position: int, length: int) -> bool:
    try:
        segment.reserve(position + length)
        return not length or segment.populate_pages(position, length)
    except ValueError:  # the file was closed in the meantime
        return True
    except OSError:  # the disk is full; the writer will get the error
        return True


# Room for messages: the next files, and blocks and pages of those in use.
#
# Nothing is changed where NotReady is raised: the disk has to do something first, while `Readiness` is strict.

NO_FILE = AppendResult(PutStatus.CREATE_MAPEDFILE_FAILED)
_ILLEGAL = AppendResult(PutStatus.MESSAGE_ILLEGAL)


class Room:
    """Provides the files, blocks and pages for the next record and the next entry."""

    def __init__(self, log: CommitLog, readiness: Readiness) -> None:
        self._log = log
        self._readiness = readiness

    def make(self, size: int) -> AppendResult | None:
        """Make the log ready for a run of `size` bytes, in the next file if necessary.

        Return a refusal if the run is too long or the disk refuses. Raises NotReady like `next_file`.
        """
        segments = self._log.segments
        if size + FILLER_HEAD_SIZE > segments.size:
            return _ILLEGAL
        # The last page may have left memory since the last record: touching it would wait for the disk.
        if not self._log.is_ready:
            self._readiness.require_pages(self._log.shared_pages(), self._log.set_ready)
            return None
        missing = self._log.unreserved(size)
        if missing is not None:
            return None if self._has_room(*missing, self._log.note_reserved) else NO_FILE
        if self._log.fits(size):  # a worker has reserved the blocks but not called `note_reserved` yet
            self._log.note_reserved()
            return None
        return self.next_file()

    def next_file(self) -> AppendResult | None:
        """End the current file of the log and begin the next one. Return a refusal if it cannot be created.

        Raises NotReady if it has to be created first.
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
        """Return False if the disk refused the file or the blocks that `entries` entries need.

        Raises NotReady if these have to be created first, if a page of the entries has to be read, or if the
        queue is reserved by another `hold`.
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
        """Reserve blocks of a file up to a position, and call `done`. Return False if the disk is full.

        Raises NotReady if a worker has to reserve them first.
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
