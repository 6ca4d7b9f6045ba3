"""Files and pages that are prepared in worker threads before the writer needs them (Java
`AllocateMappedFileService`).

Files: the next one of the commit log as soon as the last one was begun, of a consume queue or the index when
the last one is nearly full. Pages of the commit log: the first touch of a page costs the writer more than
everything else the kernel does for a message (memory is found and zeroed, 2 µs a KB), so the next megabytes
are allocated meanwhile. Not with SYNC_FLUSH, where every flush would have to write what is still empty.
"""

from __future__ import annotations

import contextlib
import logging

import trio

from broker.store.commit_log import CommitLog
from broker.store.consume_queues import ConsumeQueues
from broker.store.flush import Flusher
from broker.store.index import Index
from broker.store.readiness import InThread, Readiness
from broker.store.segment import DISK_FULL, Segment

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
        """Check at once what is to be prepared."""
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
                self._index.resident = False  # unless they are used, pages leave the memory
            self._wake = trio.Event()

    async def _prepare(self) -> None:
        if (missing := self._log.grows) is not None:
            with contextlib.suppress(OSError):  # the writer will ask again
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
        """Bring what index items need now or soon, a file or pages of the last; write the items."""
        index = self._index
        if index is None:
            return
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
    """Allocate pages of the log ahead of the writer; end if the kernel does not know how."""
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
    except ValueError:  # the file was closed meanwhile
        return True
    except OSError:  # the disk is full, which the writer will see
        return True
