"""The message store of a broker (Java `DefaultMessageStore`).

The store uses one thread and no locks: everything except flushing happens in the calling task. When `append`
returns, the record and its queue entry are in the mapped files, so they survive the death of the process.

A running store never makes its callers wait for the disk: between `begin_batch` and `end_batch`, and inside
`attempt` and `when_ready`, every method that would have to wait raises NotReady before it changes anything.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import trio

from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.errors import NotReady
from rmqcli.broker.store.appending import Appender
from rmqcli.broker.store.batches import Hold
from rmqcli.broker.store.checkpoint import Checkpoint, DeletedTopics
from rmqcli.broker.store.commit_log import log_of
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.dispatch import Dispatcher
from rmqcli.broker.store.flush import FLUSH_FAILED, Flusher, note_failure, sync_files
from rmqcli.broker.store.index import Index
from rmqcli.broker.store.prepare import Preparer, allocate_pages
from rmqcli.broker.store.readiness import InThread, Readiness
from rmqcli.broker.store.reading import Reader
from rmqcli.broker.store.recovery import RecoveryReport, recover
from rmqcli.broker.store.recovery_start import Stop
from rmqcli.broker.store.replica import Replica
from rmqcli.broker.store.retention import Retention
from rmqcli.broker.store.search import KeySearch, Search
from rmqcli.broker.store.unsupported import batch_topics, refuse_unsupported
from rmqcli.broker.store.values import ArrivalListener, BitMapOf, QueryResult, Statistics
from rmqcli.broker.supervisor import Services, Supervisor, open_services

_log = logging.getLogger(__name__)


class MessageStore:
    """The message store; `open_store` creates one. Offsets named physical are bytes in the commit log, others
    are numbers in a queue; times are in ms.

    `writer` stores messages, `replica` the records of a master; `reader` serves pulls, `search` finds
    entries, records and times; `retention` deletes files and queues.
    """

    cuts = 0
    """Changes whenever `cut` begins or ends: data that was read in between may be gone."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        now_ms: Callable[[], int],
        store_host: bytes,
        in_thread: InThread,
        disk: Disk = REAL,
    ) -> None:
        """Blocks: adopts the sizes of existing files."""
        self.config = config
        self.recovery = RecoveryReport(0, 0, 0, 0)
        self.stop_was_clean = True
        """False if the previous broker of this store was killed, or the machine lost power."""
        self._now_ms = now_ms
        self._in_thread = in_thread
        self._disk = disk
        self._log = log = log_of(config, disk)
        self.stats = stats = Statistics()
        extensions = (config.consume_queue_ext_folder, config.mapped_file_size_consume_queue_ext)
        self._queues = queues = ConsumeQueues(
            disk,
            config.consume_queue_folder,
            config.mapped_file_size_consume_queue,
            extensions if config.enable_consume_queue_ext else None,
        )
        self._readiness = readiness = Readiness(in_thread, queues.mappings)
        slots, items = config.max_hash_slot_num, config.max_index_num
        self._index = index = (
            Index(disk, config.index_folder, slots, items, now_ms=now_ms)
            if config.message_index_enable
            else None
        )
        self._checkpoint = Checkpoint(disk, config.checkpoint_file)
        self._deleted = deleted = DeletedTopics(disk, config.deleted_topics_file)
        self._flusher = flusher = Flusher(
            disk, config, log, queues, index, self._checkpoint, stats, in_thread
        )
        self._preparer = Preparer(log, queues, index, flusher, readiness, in_thread)
        self.writer = appender = Appender(
            config, log, queues, index, stats, readiness, now_ms=now_ms, store_host=store_host
        )
        self.replica = Replica(
            disk, log, queues, index, self._checkpoint, deleted, stats, readiness, appender
        )
        self.reader = Reader(config, log, queues, readiness)
        self.search = Search(log, queues, index, readiness, self._preparer.index_file, appender.delay_levels)
        self.retention = retention = Retention(
            disk,
            config,
            log,
            queues,
            index,
            deleted,
            stats,
            now_ms,
            readiness,
            in_thread,
            flusher.make_known,
        )
        appender.late.bring_file = self._preparer.index_file
        log.space_wanted = retention.want_check
        self.barrier: Callable[[], Awaitable[object]] | None = None
        """Set by a request whose reply must wait for it; see `rmqcli.broker.net.dispatch.Batches`."""
        self.wait_flushed = flusher.wait_flushed
        self.attempt = readiness.attempt
        self.when_ready = readiness.when_ready

    def reconfigure(self, wanted: StoreConfig) -> None:
        """Apply the settings that can change while the store is open."""
        self.config = config = self.config.changed_to(wanted)
        self._flusher.config = self.retention.config = config
        self.writer.configure(config)
        self.reader.configure(config)

    async def apply_read_ahead(self) -> None:
        """Turn the kernel's read-ahead for the log on or off, according to `data_read_ahead_enable`."""
        await self._in_thread(self._log.segments.read_ahead, self.config.data_read_ahead_enable)

    @property
    def master_flushed_offset(self) -> int:
        """The offset up to which the master has flushed, as it reported to this slave; 0 if unknown. Stored
        in the checkpoint."""
        return self._checkpoint.master_flushed

    @master_flushed_offset.setter
    def master_flushed_offset(self, offset: int) -> None:
        self._checkpoint.master_flushed = offset

    # --- opening and closing

    def load(self) -> None:
        """Map the files and run recovery. Blocks. Raises StoreError if the folder cannot be used, and
        OSError."""
        try:
            self._load()
        except OSError:
            note_failure(self._disk, self.config.abort_file)
            raise

    def _load(self) -> None:
        disk, abort = self._disk, self.config.abort_file
        disk.make_folder(self.config.root)
        # A power cut must not revert the files that are read below.
        disk.sync_folder(self.config.tables_folder)
        if not self.config.ignore_unsupported:
            refuse_unsupported(self.config.root, disk)
        self._checkpoint.load(self._now_ms())
        stop, is_unwritten = Stop.CLEAN, False
        if disk.state(abort) is not None:
            content = disk.read(abort)
            boot, is_unwritten = content.removeprefix(FLUSH_FAILED), content.startswith(FLUSH_FAILED)
            stop = Stop.KILLED if boot == disk.boot_id() != b"" else Stop.POWER_LOST
            self.stop_was_clean = False
        # All files are surveyed before any is opened: a refused folder must be left unchanged.
        self._log.segments.survey()
        self._queues.survey()
        if self._index is not None:
            self._index.survey()
        self._deleted.load()
        self._log.segments.open()
        self._queues.open()
        if self._index is not None:
            self._index.open()
            if stop is Stop.POWER_LOST or is_unwritten:
                self._index.doubt_after(self._checkpoint.index, self._checkpoint.index_offset)
        unserved = batch_topics(self.config.root, disk) if self.config.ignore_unsupported else frozenset()
        self.writer.unserved = unserved
        dispatcher = Dispatcher(self._queues, self._index, self.writer.delay_levels, self._deleted, unserved)
        self.recovery = recover(
            self.config,
            disk,
            self._log,
            self._queues,
            self._index,
            self._checkpoint,
            self._deleted,
            dispatcher,
            stop,
        )
        if is_unwritten:
            # After a failed sync, Linux marks pages as clean that never reached the disk.
            self._flusher.rewrite()
        if self._checkpoint.is_damaged:
            self._checkpoint.save(self._checkpoint.content())
        self.stats.last_store_timestamp = max(self._checkpoint.physic, self._checkpoint.logics)
        disk.write(abort, disk.boot_id())
        sync_files(disk, [abort], [abort.parent])
        self.retention.check_space(self.retention.usages())

    def start(self, services: Services) -> None:
        """Start the services."""
        self._readiness.is_running = self._queues.mappings.is_running = True
        self._flusher.start(services)
        services.start("retention", self.retention.run)
        services.start("free space", self.retention.watch_space)
        services.start("prepared files", self._preparer.run)
        services.start("late arrivals", self.writer.late.run)
        services.start("residency", self._readiness.forget)
        if not self.config.sync_flush:
            services.start("page ahead", lambda: allocate_pages(self._log, self._in_thread))

    async def stop(self) -> None:
        """Flush everything and remove the abort file, unless the disk refused."""
        self.writer.arrivals.announce()
        self.writer.late.finish()
        try:
            if not self.stats.damaged:
                await self._flusher.flush_everything()
                await self._in_thread(self._disk.unlink, self.config.abort_file)
        except OSError as error:
            _log.error("the store could not be flushed at its stop: %s", error)
        finally:
            await self._in_thread(self.close)

    def close(self) -> None:
        """Close the files without flushing, as a killed process would. Blocks."""
        self._flusher.close()
        if self._index is not None:
            self._index.close()
        self._queues.close()
        self._log.close()

    # --- writing

    def begin_batch(self) -> None:
        """Defer index items and listeners until `end_batch`; until then, nothing waits for the disk."""
        self.barrier = None
        self._readiness.strict = self._readiness.is_running
        self.writer.begin_batch()

    def end_batch(self) -> None:
        self.writer.end_batch()
        self._readiness.strict = False

    def holding(self, topic: str, queue_id: int) -> AbstractAsyncContextManager[Hold]:
        """Return a context manager that reserves a queue for the parts of a long batch."""
        return self._queues.holding(topic, queue_id)

    def want_flush(self) -> None:
        """Request a flush of the log now, for SYNC_FLUSH; `wait_flushed` waits for it."""
        self._flusher.want()

    async def make_durable(self) -> bool:
        """Flush everything the log holds now, before saving a table that depends on it. Return False if the
        disk failed."""
        return await self._flusher.make_durable()

    async def cut(self, end: int) -> Path:
        """Remove the records from commit-log offset `end` on, where a record begins; return the folder with a
        copy of them. Used by a slave whose master has other records there. Nothing may be appended meanwhile.

        Raises OSError, and StoreDamaged if the disk has no room for the copy.
        """
        async with self._flusher.paused(), self._readiness.files_kept():
            folder: Path = await self._in_thread(self.replica.copy_from, end)
            self.cuts += 1
            try:
                self.replica.cut(end)
                for _ in self.replica.index_again():
                    await trio.lowlevel.checkpoint()
            finally:
                self.cuts += 1
        return folder

    def log_part(self, offset: int, most: int) -> memoryview:
        """Return at most `most` bytes of the commit log from an offset on, without crossing a file; empty
        past the end and for deleted files. Raises NotReady if strict and the bytes have to be read from the
        disk."""
        place = self._log.place(offset, most)
        if place is None:
            return memoryview(b"")
        segment, position, length = place
        self._readiness.require(segment, position, length, self._log.written_in(segment))
        self._log.note_read(length)
        return segment.view[position : position + length]

    def last_record_before(self, end: int) -> tuple[int, int] | None:
        """Return offset and size of the last record with a queue entry that ends at or before `end`."""
        return self.search.last_before(end)

    def add_arrival_listener(self, listener: ArrivalListener) -> None:
        """Register a listener that is called before `append` or `end_batch` returns. It must not raise."""
        self.writer.arrivals.listeners.append(listener)

    def set_bit_map(self, bit_map: BitMapOf) -> None:
        """Set the function that computes the bit map of each message whose queue has an extension. It must
        not raise."""
        self.writer.bit_map = bit_map

    # --- states

    def query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> QueryResult:
        """Return messages with the same key hash as `key`, stored in [begin, end] ms, at most 64."""
        search = self.key_search(topic, key, max_num, begin, end)
        while not search.advance():
            pass
        return self.found(search)

    def key_search(self, topic: str, key: str, max_num: int, begin: int, end: int) -> KeySearch:
        """Return the same query as a search that advances in steps; `found` returns its messages."""
        self.writer.arrivals.announce()
        if self.writer.late:
            if self._readiness.strict:
                raise NotReady(self.writer.late.settled)
            self.writer.late.finish()
        return self.search.by_key(topic, key, min(max_num, self.config.max_msgs_num_batch), begin, end)

    def found(self, search: KeySearch) -> QueryResult:
        return self.search.records(search)

    def topics(self) -> list[str]:
        """Return the topics that have queues."""
        return list(self._queues.by_topic)

    def queued_topics(self) -> set[str]:
        """Return the topics that have consume queues, except those that only the broker itself writes to."""
        return self.retention.deletable()

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(self._queues.by_topic.get(topic, ()))

    @property
    def commit_log_min_offset(self) -> int:
        return self._log.start

    @property
    def commit_log_max_offset(self) -> int:
        return self._log.end

    @property
    def commit_log_file_size(self) -> int:
        """Size of each commit-log file, in bytes."""
        return self._log.segments.size

    @property
    def consume_queue_file_size(self) -> int:
        """Size of each consume-queue file, in bytes."""
        return self._queues.file_size

    @property
    def index_size(self) -> tuple[int, int]:
        """Slots and items of each index file; 0 without an index."""
        return (0, 0) if self._index is None else (self._index.slots, self._index.items)

    @property
    def flushed_offset(self) -> int:
        """End of the part of the log that is known to be on the disk."""
        return self._log.flushed


@contextlib.asynccontextmanager
async def open_store(
    config: StoreConfig,
    *,
    now_ms: Callable[[], int],
    store_host: bytes,
    in_thread: InThread = trio.to_thread.run_sync,
    supervisor: Supervisor | None = None,
    disk: Disk = REAL,
) -> AsyncIterator[MessageStore]:
    """Yield a running store: locked, loaded, recovered, its services started. Leaving the block stops it
    cleanly.

    `store_host` is the address (4 or 16 bytes) and the port (int32) that records carry. Raises StoreLocked,
    StoreSizeMismatch or StoreDamaged.
    """
    with contextlib.ExitStack() as held:
        await in_thread(held.enter_context, disk.lock(config.lock_file, config.folders))
        create = partial(
            MessageStore, config, now_ms=now_ms, store_host=store_host, in_thread=in_thread, disk=disk
        )
        store: MessageStore = await in_thread(create)
        try:
            await in_thread(store.load)
        except BaseException:
            store.close()
            raise
        try:
            async with open_services(supervisor) as services:
                store.start(services)
                yield store
        finally:
            # A block that is cancelled has to end in a clean stop as well.
            with trio.CancelScope(shield=True):
                await store.stop()
