"""Flushes: written pages reach the disk (Java `FlushRealTimeService`, `GroupCommitService`,
`FlushConsumeQueueService`).

ASYNC_FLUSH: every 500 ms if at least 4 pages are dirty, everything every 10 s. SYNC_FLUSH: one fdatasync in a
worker thread for all waiting sends. Queues: every second those with 2 dirty pages, all every 60 s, and then
the checkpoint, whose values are read before the flush they describe. The pages of log and index leave the
memory of the process then; full pages of queues with each flush, which does some queues at a time.

A sync that fails is the last one: Linux reports a page that could not be written once and then counts it as
clean, so a second sync would succeed without it. From then on nothing is flushed, the store refuses messages
until it is opened again, and whoever waits for a flush learns that there was none. The abort file says so,
too: the next start has such pages written again (`note_failure`).
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

from broker.disk import PAGE, CannotSync, Disk, FileSync
from broker.store.checkpoint import OPEN, Checkpoint
from broker.store.commit_log import CommitLog
from broker.store.config import StoreConfig
from broker.store.consume_queue import ConsumeQueue
from broker.store.consume_queue_ext import QueueExtension
from broker.store.consume_queues import ConsumeQueues
from broker.store.index import Index
from broker.store.readiness import InThread
from broker.store.segment import DISK_FULL, Segment
from broker.store.values import Statistics
from broker.supervisor import Services

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Files could not be opened: nothing was synced, and nothing is lost by another attempt."""
DESCRIPTOR_PAUSE_SECONDS = 0.2
SHORT_SYNC = 256 * 1024
"""Bytes of a `FileSync` at most: the kernel may do its work on the core of the event loop."""
FLUSHED_AT_ONCE = 64
"""Queues that are flushed in one turn."""
FLUSH_FAILED = b"a flush failed, boot "
"""Begins the content of an abort file after a flush that failed; else it is the boot id alone."""

_log = logging.getLogger(__name__)


def sync_files(disk: Disk, paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
    """Make files durable, then the names in folders. Blocks."""
    for path in paths:
        disk.sync_file(path)
    for folder in folders:
        disk.keep_folder(folder)
        disk.sync_folder(folder)


def note_failure(disk: Disk, abort: Path) -> None:
    """Note in the abort file that pages in memory may be lost to the disk. Blocks; never fails."""
    with contextlib.suppress(OSError):
        disk.write(abort, FLUSH_FAILED + disk.boot_id())


class Flusher:
    """Flushes log, queues, index and checkpoint; `start` begins its services. `config` may be replaced."""

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
        """Have the next flush write everything behind the last that is known to be on the disk. Blocks."""
        self._log.segments.rewrite(self._log.flushed, self._log.end)
        for queue in self._queues:
            for part in (queue, queue.extension):
                if part is not None:
                    part.segments.rewrite(part.flushed, part.end)

    def start(self, services: Services) -> None:
        """Start the services; `close` is called after the stop."""
        if self._in_thread is trio.to_thread.run_sync:  # a virtual clock would run on while the kernel works
            self._file_sync = self._disk.file_sync()
        services.start("group commit", self._group_commit)
        services.start("flush commit log", self._flush_log_at_times)
        services.start("flush consume queues", self._flush_queues_at_times)

    def close(self) -> None:
        """Free what `start` took."""
        if self._file_sync is not None:
            self._file_sync.close()
            self._file_sync = None

    def want(self) -> None:
        """Have `_group_commit` flush the log at once."""
        self._wanted.set()

    async def wait_flushed(self, end: int) -> bool:
        """SYNC_FLUSH: waits until the log is flushed up to `end`. False on time-out or if the disk failed."""
        if not self.config.sync_flush:
            return True
        with trio.move_on_after(self.config.sync_flush_timeout / 1000):
            while self._log.flushed < end and not self._statistics.damaged:
                self._wanted.set()
                await self._done.wait()
        return self._log.flushed >= end

    async def make_durable(self) -> bool:
        """Flush what the log holds now, whatever the flush type; False if the disk failed."""
        end = self._log.end
        await self._guarded(self.flush_log)
        return self._log.flushed >= end

    async def _group_commit(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            await self._guarded(self.flush_log)
            done, self._done = self._done, trio.Event()
            done.set()

    async def _flush_log_at_times(self) -> None:
        last_all, last_end = trio.current_time(), -1
        while True:
            config = self.config
            await trio.sleep(config.flush_interval_commit_log / 1000)
            if self._log.end == last_end:
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
        """Make durable what the log holds now. OSError if the disk refuses, or refused any flush before."""
        async with self._log_turn:
            end, timestamp = self._log.end, self._statistics.last_store_timestamp
            if end <= self._log.flushed:
                return
            segments = self._log.segments.between(self._log.flushed, end)
            await self._sync_log(segments, end - self._log.flushed)
            self._log.flushed = max(self._log.flushed, end)
            self._checkpoint.physic = max(self._checkpoint.physic, timestamp)

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Return no flush of log or queues runs inside the block."""
        async with self._log_turn, self._queues_turn:
            yield

    async def flush_all_queues(self, queues_crc: int = OPEN) -> None:
        """Make queues and checkpoint durable. OSError if the disk refuses.

        `queues_crc` goes into the checkpoint: `ConsumeQueues.crc` when nothing more is stored.
        """
        timestamp = self._statistics.last_store_timestamp
        safe = min(self._log.flushed, self._log.end)
        await self._flush_queues(1)
        self._checkpoint.logics = max(self._checkpoint.logics, timestamp)
        self._checkpoint.log_offset = max(self._checkpoint.log_offset, safe)
        self._checkpoint.queues_crc = queues_crc
        await self._blocking(self._save_checkpoint, self._checkpoint.content())

    async def make_known(self, offset: int) -> None:
        """Make durable what the queues know of the log before `offset`, and that they do. OSError.

        Once those records are gone, nothing else knows which queue offsets were given.
        """
        if self._checkpoint.log_offset < offset:
            await self.flush_log()
            await self.flush_all_queues()

    def _save_checkpoint(self, content: bytes) -> None:
        """Save the checkpoint. On a full disk the old one stays: a recovery then reads more than it must."""
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
        """Some queues at a time, so that no step of the event loop takes long."""
        touched = list(self._queues.touched)
        for first in range(0, len(touched), FLUSHED_AT_ONCE):
            await trio.lowlevel.checkpoint()
            await self._flush_some(touched[first : first + FLUSHED_AT_ONCE], least_pages)

    async def _flush_some(self, queues: Sequence[ConsumeQueue], least_pages: int) -> None:
        dirty = [queue for queue in queues if _dirty_pages(queue.flushed, queue.end) >= least_pages]
        ends = [(queue, queue.end) for queue in dirty]
        extensions = [queue.extension for queue in dirty if queue.extension is not None]
        # first what the entries hold addresses of
        await self._flush_to([(extension, extension.end) for extension in extensions])
        await self._flush_to(ends)
        for queue in dirty:
            queue.ready_until = 0  # pages that are clean may leave the memory
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
            # The page that is written next stays: its first touch would cost the writer a fault.
            segment.release_pages(0, min(position, segment.size))
        for part, end in ends:
            part.flushed = max(part.flushed, end)

    async def _sync_log(self, segments: list[Segment], size: int) -> None:
        file_sync = self._file_sync
        if file_sync is None or size > SHORT_SYNC or any(segment.fresh for segment in segments):
            await self._sync(segments, [self._log.segments.folder])
            return
        if not self._has_failed:
            try:
                for segment in segments:
                    await file_sync.sync(segment.path)
            except CannotSync as error:
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
        """Call `function` in a thread; OSError also if another call failed before or meanwhile."""
        if not self._has_failed:
            try:
                await self._in_thread(self._attempt, function, *arguments)
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    raise
                self._fail(error)
        self._require_sound()

    def _require_sound(self) -> None:
        """OSError once a flush has failed."""
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
        """Make full index files durable and notes them in the checkpoint."""
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
        """For the stop: log, index, queues, checkpoint, in this order. OSError if the disk refuses."""
        await self.flush_log()
        if self._index is not None:
            await self._in_thread(partial(self._index.drain, may_create=True))
            await self.flush_index_files()
            paths = [file.path for file in self._index.files[-1:]]
            await self._blocking(sync_files, self._disk, paths, {path.parent for path in paths})
        await self.flush_all_queues(self._queues.crc())
        if self._index is not None and self._index.pending:
            raise OSError(errno.ENOSPC, "the disk has no room for the index")


def _dirty_pages(flushed: int, end: int) -> int:
    return math.ceil(end / PAGE) - flushed // PAGE if end > flushed else 0
