"""Flushing of written pages to the disk (Java `FlushRealTimeService`, `GroupCommitService`,
`FlushConsumeQueueService`).

ASYNC_FLUSH: every 500 ms if at least 4 pages are dirty, everything every 10 s. SYNC_FLUSH: one fdatasync for
all waiting sends. Queues: every second those with 2 dirty pages; every 60 s all of them, followed by the
checkpoint, whose values are read before the flush they describe. At that time the pages of log and index are
released from the memory of the process; full pages of queues are released at each flush, which handles some
queues at a time.

A failed sync is never repeated: Linux reports a page that could not be written only once and then counts it
as clean, so a second sync would succeed without it. From then on nothing is flushed, the store refuses
messages until it is opened again, and all waits for a flush report failure. The abort file also records the
failure (`note_failure`), so that the next start writes such pages again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio

from rmqcli.broker.disk import PAGE, CannotSync, Disk, FileSync
from rmqcli.broker.store.checkpoint import OPEN, Checkpoint
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queue_ext import QueueExtension
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.index import Index
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.store.segment import DISK_FULL, Segment
from rmqcli.broker.store.values import Statistics
from rmqcli.broker.supervisor import Services

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""A file could not be opened: nothing was synced, so another attempt loses nothing."""
DESCRIPTOR_PAUSE_SECONDS = 0.2
SHORT_SYNC = 256 * 1024
"""Maximum number of bytes that are synced by a `FileSync`: the kernel may do the work on the core of the
event loop."""
FLUSHED_AT_ONCE = 64
"""Queues that are flushed between two checkpoints of the event loop; 1,024 at once take it 5 ms."""
FLUSH_FAILED = b"a flush failed, boot "
"""Prefix of the content of an abort file after a failed flush; otherwise the content is only the boot id."""

_log = logging.getLogger(__name__)


def sync_files(disk: Disk, paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
    """Make files durable, then the names in their folders. Blocks."""
    for path in paths:
        disk.sync_file(path)
    for folder in folders:
        disk.keep_folder(folder)
        disk.sync_folder(folder)


def note_failure(disk: Disk, abort: Path) -> None:
    """Record in the abort file that pages in memory may not have reached the disk. Blocks; never fails."""
    with contextlib.suppress(OSError):
        disk.write(abort, FLUSH_FAILED + disk.boot_id())


class Flusher:
    """Flushes log, queues, index and checkpoint; `start` starts its services. `config` may be replaced."""

    def __init__(
        self,
        disk: Disk,
        config: StoreConfig,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        checkpoint: Checkpoint,
        statistics: Statistics,
        in_thread: InThread,
    ) -> None:
        self.config = config
        self._disk = disk
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._statistics = statistics
        self._in_thread = in_thread
        self._has_failed = False
        self._log_turn = trio.Lock()
        self._queues_turn = trio.Lock()
        self._wanted = trio.Event()
        self._done = trio.Event()
        self._file_sync: FileSync | None = None

    def rewrite(self) -> None:
        """Make the next flush write everything after the offsets known to be on the disk. Blocks."""
        self._log.segments.rewrite(self._log.flushed, self._log.end)
        for queue in self._queues:
            for part in (queue, queue.extension):
                if part is not None:
                    part.segments.rewrite(part.flushed, part.end)

    def start(self, services: Services) -> None:
        """Start the services; `close` is called after the stop."""
        if self._in_thread is trio.to_thread.run_sync:  # a virtual clock would advance while the kernel works
            self._file_sync = self._disk.file_sync()
        services.start("group commit", self._group_commit)
        services.start("flush commit log", self._flush_log_at_times)
        services.start("flush consume queues", self._flush_queues_at_times)

    def close(self) -> None:
        """Release the resources that `start` acquired."""
        if self._file_sync is not None:
            self._file_sync.close()
            self._file_sync = None

    def want(self) -> None:
        """Make `_group_commit` flush the log now."""
        self._wanted.set()

    async def wait_flushed(self, end: int) -> bool:
        """Wait, with SYNC_FLUSH, until the log is flushed up to `end`. Return False on timeout or if the disk
        failed."""
        if not self.config.sync_flush:
            return True
        with trio.move_on_after(self.config.sync_flush_timeout / 1000):
            # In a loop, because the flush that just ended may have begun before these records.
            while self._log.flushed < end and not self._statistics.damaged:
                self._wanted.set()
                await self._done.wait()
        return self._log.flushed >= end

    async def make_durable(self) -> bool:
        """Flush everything the log holds now, whatever the flush type. Return False if the disk failed."""
        end = self._log.end
        await self._guarded(self.flush_log)
        return self._log.flushed >= end

    async def _group_commit(self) -> None:
        while True:
            await self._wanted.wait()
            # Replaced before the flush: requests that arrive during it need another one.
            self._wanted = trio.Event()
            await self._guarded(self.flush_log)
            # Replaced before it is set: a waiter that needs another flush must not find it set.
            done, self._done = self._done, trio.Event()
            done.set()

    async def _flush_log_at_times(self) -> None:
        last_all, last_end = trio.current_time(), -1
        while True:
            config = self.config
            await trio.sleep(config.flush_interval_commit_log / 1000)
            if self._log.end == last_end:
                # Nothing was written for an interval: the last page may have left the page cache.
                self._log.doubt()
            last_end = self._log.end
            thorough = trio.current_time() - last_all >= config.flush_commit_log_thorough_interval / 1000
            if thorough:
                last_all = trio.current_time()
            least = 1 if thorough else config.flush_commit_log_least_pages * PAGE
            if _dirty_pages(self._log.flushed, self._log.end) * PAGE >= least:
                await self._guarded(self.flush_log)

    async def _flush_queues_at_times(self) -> None:
        last_all = trio.current_time()
        while True:
            config = self.config
            await trio.sleep(config.flush_interval_consume_queue / 1000)
            thorough = trio.current_time() - last_all >= config.flush_consume_queue_thorough_interval / 1000
            await self._guarded(self._drain_index)
            if thorough:
                last_all = trio.current_time()
                await self._guarded(self.flush_all_queues)
                self._release_pages()
            else:
                await self._guarded(partial(self._flush_queues, config.flush_consume_queue_least_pages))

    def _release_pages(self) -> None:
        self._log.release_pages()
        if self._index is not None:
            self._index.release_pages()

    async def _drain_index(self) -> None:
        if self._index is not None:
            self._index.drain()

    async def _guarded(self, flush: Callable[[], Any]) -> None:
        while True:
            try:
                await flush()
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    self._fail(error)
                    return
                _log.warning("a flush waits for a free file descriptor: %s", error)
            await trio.sleep(DESCRIPTOR_PAUSE_SECONDS)

    def _fail(self, error: OSError) -> None:
        if not self._has_failed:
            _log.error("flush failed, the store takes no more messages until it is opened again: %s", error)
        self._has_failed = True
        self._statistics.set_damaged()

    async def flush_log(self) -> None:
        """Make everything the log holds now durable. Raises OSError if this flush or an earlier one
        failed."""
        async with self._log_turn:
            # Read before the sync: records that arrive during it are not covered by it.
            end, timestamp = self._log.end, self._statistics.last_store_timestamp
            if end <= self._log.flushed:
                return
            segments = self._log.segments.between(self._log.flushed, end)
            await self._sync_log(segments, end - self._log.flushed)
            self._log.flushed = max(self._log.flushed, end)
            self._checkpoint.physic = max(self._checkpoint.physic, timestamp)

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Let no flush of log or queues run inside the block."""
        async with self._log_turn, self._queues_turn:
            yield

    async def flush_all_queues(self, queues_crc: int = OPEN) -> None:
        """Make queues and checkpoint durable. Raises OSError if the disk refuses.

        `queues_crc` goes into the checkpoint: `ConsumeQueues.crc` if nothing more will be stored.
        """
        # Both are read before the flush, which may miss entries that are added while it runs.
        timestamp = self._statistics.last_store_timestamp
        safe = min(self._log.flushed, self._log.end)
        await self._flush_queues(1)
        self._checkpoint.logics = max(self._checkpoint.logics, timestamp)
        self._checkpoint.log_offset = max(self._checkpoint.log_offset, safe)
        self._checkpoint.queues_crc = queues_crc
        await self._blocking(self._save_checkpoint, self._checkpoint.content())

    async def make_known(self, offset: int) -> None:
        """Make the queue entries of records before `offset` durable, and the checkpoint that records this.
        Raises OSError.

        Once those records are deleted, nothing else shows which queue offsets were assigned.
        """
        if self._checkpoint.log_offset < offset:
            await self.flush_log()
            await self.flush_all_queues()

    def _save_checkpoint(self, content: bytes) -> None:
        """Save the checkpoint. On a full disk the old one stays, and a recovery reads more than necessary."""
        try:
            self._checkpoint.save(content)
        except OSError as error:
            if error.errno not in DISK_FULL or self._checkpoint.queues_crc != OPEN:
                raise
            _log.warning("the checkpoint cannot be saved: %s", error)

    async def _flush_queues(self, least_pages: int) -> None:
        async with self._queues_turn:
            await self._flush_touched(least_pages)

    async def _flush_touched(self, least_pages: int) -> None:
        """Flush some queues at a time, so as not to block the event loop for long."""
        touched = list(self._queues.touched)
        for first in range(0, len(touched), FLUSHED_AT_ONCE):
            await trio.lowlevel.checkpoint()
            await self._flush_some(touched[first : first + FLUSHED_AT_ONCE], least_pages)

    async def _flush_some(self, queues: Sequence[ConsumeQueue], least_pages: int) -> None:
        dirty = [queue for queue in queues if _dirty_pages(queue.flushed, queue.end) >= least_pages]
        ends = [(queue, queue.end) for queue in dirty]
        extensions = [queue.extension for queue in dirty if queue.extension is not None]
        # Extensions first: entries hold addresses of extension entries.
        await self._flush_to([(extension, extension.end) for extension in extensions])
        await self._flush_to(ends)
        for queue in dirty:
            queue.ready_until = 0  # clean pages may be evicted from memory
        self._queues.note_flushed(queues)

    async def _flush_to(self, ends: Sequence[tuple[ConsumeQueue | QueueExtension, int]]) -> None:
        written = [
            (segment, end - segment.start)
            for part, end in ends
            for segment in part.segments.between(part.flushed, end)
        ]
        if written:
            await self._sync([segment for segment, _ in written], [part.segments.folder for part, _ in ends])
        for segment, position in written:
            # The page that is written next stays mapped: touching it again would cost the writer a page
            # fault.
            segment.release_pages(0, min(position, segment.size))
        for part, end in ends:
            part.flushed = max(part.flushed, end)

    async def _sync_log(self, segments: list[Segment], size: int) -> None:
        file_sync = self._file_sync
        # A new file needs its folder synced, which only a thread does.
        if file_sync is None or size > SHORT_SYNC or any(segment.fresh for segment in segments):
            await self._sync(segments, [self._log.segments.folder])
            return
        if not self._has_failed:
            try:
                for segment in segments:
                    await file_sync.sync(segment.path)
            except CannotSync as error:
                # The kernel refused the call without syncing anything: this is not a failure of the disk.
                _log.info("the commit log is synced by threads: %s", error)
                self._file_sync = None
                await self._in_thread(file_sync.close)
                await self._sync(segments, [])
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    raise
                await self._in_thread(note_failure, self._disk, self.config.abort_file)
                self._fail(error)
        self._require_sound()

    async def _sync(self, segments: list[Segment], folders: list[Path]) -> None:
        fresh = {segment.path.parent for segment in segments if segment.fresh}
        paths = [segment.path for segment in segments]
        await self._blocking(sync_files, self._disk, paths, [f for f in folders if f in fresh])
        for segment in segments:
            segment.fresh = False

    async def _blocking(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call `function` in a thread. Raises OSError also if another call failed before or meanwhile."""
        # A sync after a failed one can succeed without the pages that failed: there is no second attempt.
        if not self._has_failed:
            try:
                await self._in_thread(self._attempt, function, *arguments)
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    raise
                self._fail(error)
        self._require_sound()

    def _require_sound(self) -> None:
        """Raise OSError if any flush has failed."""
        if self._has_failed:
            raise OSError(errno.EIO, "a flush of the store failed")

    def _attempt(self, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            function(*arguments)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                note_failure(self._disk, self.config.abort_file)
            raise

    async def flush_index_files(self) -> None:
        """Make full index files durable and record them in the checkpoint."""
        files = [] if self._index is None else self._index.full_files_behind(self._checkpoint.index_offset)
        if not files:
            return
        paths = [file.path for file in files]
        ends = [(file.end_timestamp, file.end_offset) for file in files]
        await self._guarded(partial(self._blocking, sync_files, self._disk, paths, [paths[0].parent]))
        if not self._has_failed:
            self._checkpoint.index = max(self._checkpoint.index, *(timestamp for timestamp, _ in ends))
            self._checkpoint.index_offset = ends[-1][1]

    async def flush_everything(self) -> None:
        """Flush log, index, queues and checkpoint, in this order, for a stop. Raises OSError if the disk
        refuses."""
        await self.flush_log()
        if self._index is not None:
            await self._in_thread(partial(self._index.drain, may_create=True))
            await self.flush_index_files()
            paths = [file.path for file in self._index.files[-1:]]
            await self._blocking(sync_files, self._disk, paths, {path.parent for path in paths})
        await self.flush_all_queues(self._queues.crc())
        # Last, so that all else is flushed. The abort file stays, and the next start indexes the rest.
        if self._index is not None and self._index.pending:
            raise OSError(errno.ENOSPC, "the disk has no room for the index")


def _dirty_pages(flushed: int, end: int) -> int:
    return math.ceil(end / PAGE) - flushed // PAGE if end > flushed else 0
