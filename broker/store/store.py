"""The message store of a broker (Java `DefaultMessageStore`).

One thread and no locks: everything but flushing happens in the task that calls. When `append` returns, the record and its queue
entry are in the mapped files, so they survive the death of the process.

A running store keeps its callers from waiting for the disk: inside of `begin_batch` … `end_batch`, `attempt` and `when_ready` every method
that would have to wait raises NotReady before it changes anything.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

import trio

from broker.disk import REAL, Disk
from broker.errors import NotReady
from broker.store.appending import Appender
from broker.store.checkpoint import Checkpoint
from broker.store.commit_log import CommitLog
from broker.store.config import COMMIT_LOG_FILE_SIZE, CONSUME_QUEUE_FILE_SIZE, StoreConfig
from broker.store.consume_queue import ConsumeQueue
from broker.store.consume_queues import ConsumeQueues
from broker.store.dispatch import Dispatcher, record_code
from broker.store.flush import Flusher, sync_files
from broker.store.index import Index
from broker.store.index_file import IndexFile
from broker.store.prepare import Preparer, allocate_pages
from broker.store.readiness import InThread, Readiness
from broker.store.reading import AcceptsCode, AcceptsExtension, AcceptsRecord, Reader
from broker.store.recovery import RecoveryReport, recover
from broker.store.retention import Retention
from broker.store.search import Search
from broker.store.segment import SegmentList, adopted_size
from broker.store.statistics import Statistics
from broker.store.values import ArrivalListener, BitMapOf, GetResult, QueryResult, StoreMessage
from broker.supervisor import Services, Supervisor, open_services
from codec.errors import CorruptionError
from codec.names import LMQ_PREFIX
from codec.store.consume_queue_ext import ExtensionEntry, is_address
from codec.store.record import scan_record

KEPT_TOPICS = frozenset({"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_OP_HALF_TOPIC"})
T = TypeVar("T")
_log = logging.getLogger(__name__)


class MessageStore:
    """Use `open_store`. Offsets named physical are bytes in the commit log, others are numbers in a queue; times are ms."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        now_ms: Callable[[], int],
        store_host: bytes,
        in_thread: InThread,
        disk: Disk = REAL,
    ) -> None:
        """Blocks: the sizes of files that exist are adopted."""
        self.config = config
        self.recovery = RecoveryReport(0, 0, 0, 0)
        self._now_ms = now_ms
        self._in_thread = in_thread
        self._disk = disk
        self._is_running = False
        self._readiness = readiness = Readiness(in_thread)
        log_folder = config.commit_log_folder
        log_size = (
            config.mapped_file_size_commit_log or adopted_size(disk, log_folder) or COMMIT_LOG_FILE_SIZE
        )
        self._log = log = CommitLog(SegmentList(disk, log_folder, log_size, "mappedFileSizeCommitLog"))
        self.stats = Statistics(log)
        queue_size = config.mapped_file_size_consume_queue or CONSUME_QUEUE_FILE_SIZE
        extensions = (config.consume_queue_ext_folder, config.mapped_file_size_consume_queue_ext)
        self._queues = queues = ConsumeQueues(
            disk,
            config.consume_queue_folder,
            queue_size,
            extensions if config.enable_consume_queue_ext else None,
        )
        self._index = index = self._make_index()
        self._checkpoint = Checkpoint(disk, config.checkpoint_file)
        self._flusher = Flusher(disk, config, log, queues, index, self._checkpoint, self.stats, in_thread)
        self._preparer = Preparer(log, queues, index, self._flusher, readiness, in_thread)
        self._appender = Appender(
            config, log, queues, index, self.stats, readiness, now_ms=now_ms, store_host=store_host
        )
        self._reader = Reader(config, log, readiness)
        self._search = Search(log, index, readiness, self._preparer.index_file)
        self.retention = Retention(disk, config, log, queues, index, self.stats, now_ms, readiness, in_thread)
        log.space_wanted = self.retention.want_check
        self.barrier: Callable[[], Awaitable[object]] | None = None
        """Set by a request that is to have its reply only after this returned; see `broker.net.dispatch.Batches`."""
        self.append = self._appender.append
        self.append_batch = self._appender.append_batch
        self.append_run = self._appender.append_run

    def _make_index(self) -> Index | None:
        config = self.config
        if not config.message_index_enable:
            return None
        return Index(
            self._disk,
            config.index_folder,
            config.max_hash_slot_num,
            config.max_index_num,
            now_ms=self._now_ms,
            completed=self._note_full_index_file,
        )

    def _note_full_index_file(self, file: IndexFile) -> None:
        self._preparer.full_index_files.append(file)
        self._preparer.wake()

    def reconfigure(self, wanted: StoreConfig) -> None:
        """Applies what can change while the store is open."""
        self.config = config = self.config.changed_to(wanted)
        self._flusher.config = self.retention.config = config
        self._appender.configure(config)
        self._reader.configure(config)

    # --- opening and closing

    def load(self) -> None:
        """Maps the folder and recovers. Blocks. StoreError if it cannot be used."""
        disk, abort = self._disk, self.config.abort_file
        disk.make_folder(self.config.root)
        self._checkpoint.load(self._now_ms())
        clean = disk.state(abort) is None
        same_boot = not clean and disk.read(abort) == disk.boot_id() != b""
        self._log.segments.load()
        self._queues.load()
        if self._index is not None:
            self._index.load()
            if not clean and not same_boot:
                self._index.drop_after(self._checkpoint.index)
        dispatcher = Dispatcher(self._queues, self._index, self._appender.delay_levels)
        self.recovery = recover(
            self.config,
            self._log,
            self._queues,
            self._index,
            self._checkpoint,
            dispatcher,
            clean=clean,
            same_boot=same_boot,
        )
        self.stats.last_store_timestamp = max(self._checkpoint.physic, self._checkpoint.logics)
        disk.write(abort, disk.boot_id())
        sync_files(disk, [abort], [abort.parent])
        self.retention.check_space(self.retention.usages())

    def start(self, services: Services) -> None:
        """Starts the services."""
        self._is_running = True
        self._flusher.start(services)
        services.start("retention", self.retention.run)
        services.start("free space", self.retention.watch_space)
        services.start("prepared files", self._preparer.run)
        services.start("residency", self._readiness.forget)
        if not self.config.sync_flush:
            services.start("page ahead", lambda: allocate_pages(self._log, self._in_thread))

    async def stop(self) -> None:
        """Flushes everything and removes the abort file, unless the disk refused."""
        try:
            if not self.stats.damaged:
                await self._flusher.flush_everything()
                await self._in_thread(self._disk.unlink, self.config.abort_file)
        except OSError as error:
            _log.error("the store could not be flushed at its stop: %s", error)
        finally:
            await self._in_thread(self.close)

    def close(self) -> None:
        """Closes the files without flushing, as a killed process would. Blocks."""
        if self._index is not None:
            self._index.close()
        self._queues.close()
        self._log.close()

    # --- waiting for the disk

    def begin_batch(self) -> None:
        """Index and listeners wait until `end_batch`, and nothing waits for the disk until then."""
        self.barrier = None
        self._readiness.strict = self._is_running
        self._appender.begin_batch()

    def end_batch(self) -> None:
        self._appender.end_batch()
        self._readiness.strict = False

    def attempt(self, function: Callable[..., T], *arguments: object) -> T:
        """Calls a function that uses the store. Raises NotReady where it would have to wait for the disk."""
        self._readiness.strict = self._is_running
        try:
            return function(*arguments)
        finally:
            self._readiness.strict = False

    async def when_ready(self, function: Callable[..., T], *arguments: object) -> T:
        """As `attempt`, but waits for the disk and calls the function again. OSError if the disk refuses."""
        while True:
            try:
                return self.attempt(function, *arguments)
            except NotReady as error:
                missing = error
            await missing.ready()

    # --- writing

    async def wait_flushed(self, end_offset: int) -> bool:
        """SYNC_FLUSH: waits until the log is on the disk up to `end_offset`; False on timeout. ASYNC_FLUSH: True at once."""
        return await self._flusher.wait_flushed(end_offset)

    async def make_durable(self) -> bool:
        """Flushes the log as it is now, whatever the flush type: before a table is saved that depends on what was stored."""
        return await self._flusher.make_durable()

    def add_arrival_listener(self, listener: ArrivalListener) -> None:
        """`listener` is called with every message that gets a queue offset, before `append` or `end_batch` returns; it must not raise."""
        self._appender.listeners.append(listener)

    def set_schedule_tags_code(self, code: Callable[[StoreMessage, int], int]) -> None:
        """Replaces how entries of SCHEDULE_TOPIC_XXXX get their delivery time: `code(message, store_timestamp)`."""
        self._appender.schedule_tags_code = code

    def set_bit_map(self, bit_map: BitMapOf) -> None:
        """`bit_map(topic, properties)` is called for each message whose queue has an extension; it must not raise."""
        self._appender.bit_map = bit_map

    # --- reading

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_nums: int,
        *,
        accepts_code: AcceptsCode | None = None,
        accepts_record: AcceptsRecord | None = None,
        accepts_extension: AcceptsExtension | None = None,
    ) -> GetResult:
        """Records of a queue from `offset` on, filtered by tags code, by the queue's extension, and then by record."""
        queue = self._queues.find(topic, queue_id)
        result = self._reader.get(queue, offset, max_nums, accepts_code, accepts_record, accepts_extension)
        self.stats.count_get(result.count)
        return result

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First readable offset; 0 for a queue that does not exist."""
        queue = self._queues.find(topic, queue_id)
        return queue.min_offset if queue else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Offset of the next message; 0 for a queue that does not exist."""
        queue = self._queues.find(topic, queue_id)
        return queue.next_offset if queue else 0

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        """Offset of the message stored nearest to `timestamp` (code 29's rules)."""
        return self._search.offset_by_time(self._queues.find(topic, queue_id), timestamp)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Store time of a message; -1 if it does not exist."""
        return self._search.store_time(self._queues.find(topic, queue_id), queue_offset)

    def earliest_store_time(self, topic: str | None = None, queue_id: int = 0) -> int:
        """Store time of the first message of a queue, or of the whole log without a topic; -1 if there is none."""
        if topic is not None:
            return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))
        record = self._search.record(self._log.start)
        return -1 if record is None else self._log.store_timestamp(self._log.start, len(record))

    def record_at(self, physical_offset: int) -> memoryview | None:
        """The record that starts at an offset of the commit log."""
        return self._search.record(physical_offset)

    def record_at_size(self, physical_offset: int, size: int) -> memoryview | None:
        """The bytes of a record whose size is known."""
        return self._search.record_of_size(physical_offset, size)

    def consume_queue_entries(
        self, topic: str, queue_id: int, start: int, count: int
    ) -> list[tuple[int, int, int]]:
        """Entries (physical offset, size, tags code), at most `count`, not beyond one queue file.

        The address of an extension is replaced by the code stored there, else by that of the record.
        """
        entries = self.stored_entries(topic, queue_id, start, count)
        return [
            (offset, size, self._code(topic, offset, size, extension) if is_address(code) else code)
            for offset, size, code, extension in entries
        ]

    def stored_entries(
        self, topic: str, queue_id: int, start: int, count: int
    ) -> list[tuple[int, int, int, ExtensionEntry | None]]:
        """The same entries as stored, and their extensions."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return []
        first = max(start, queue.min_offset)
        self._search.require_entries(queue, first, count)
        return [
            (offset, size, code, queue.extended(code, self._readiness.require))
            for offset, size, code in queue.entries(first, count)
        ]

    def _code(self, topic: str, offset: int, size: int, extension: ExtensionEntry | None) -> int:
        """0 when neither extension nor record is there."""
        if extension is not None:
            return extension.tags_code
        record = self._search.record_of_size(offset, size)
        try:
            return record_code(self._appender.delay_levels, topic, scan_record(record or b""))
        except CorruptionError:
            return 0

    def query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> QueryResult:
        """Messages whose keys hash as `key` does, stored in [begin, end], at most 64."""
        self._appender.announce()
        limit = min(max_num, self.config.max_msgs_num_batch)
        return self._search.by_key(topic, key, limit, begin, end)

    def topics(self) -> list[str]:
        """Topics that have queues."""
        return self._queues.topics()

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(self._queues.by_topic.get(topic, ()))

    # --- states

    @property
    def commit_log_min_offset(self) -> int:
        return self._log.start

    @property
    def commit_log_max_offset(self) -> int:
        return self._log.end

    @property
    def flushed_offset(self) -> int:
        return self._log.flushed

    @property
    def writable(self) -> bool:
        return self.stats.writable

    def is_in_disk(self, physical_offset: int) -> bool:
        """Whether a record is so far behind the log's end that Java takes it as not in memory (40 % of RAM)."""
        return self._log.end - physical_offset > self._reader.memory_limit

    # --- deleting

    async def delete_topic(self, topic: str) -> int:
        """Removes a topic's queues; its records go with their log files. Returns the number of queues."""
        return await self._delete_queues([*self._queues.by_topic.get(topic, {}).values()])

    async def clean_unused(self, topics: Iterable[str]) -> int:
        """Removes the queues of all topics but these (codes 316, 215). Returns the number of topics removed."""
        keep = KEPT_TOPICS.union(topics)
        gone = [topic for topic in self.topics() if topic not in keep and not topic.startswith(LMQ_PREFIX)]
        await self._delete_queues([queue for queue in self._queues if queue.topic in gone])
        return len(gone)

    async def clean_expired_consume_queues(self) -> int:
        """Removes queues that only know records before the log's start (code 306). Returns their number."""
        start = self._log.start
        return await self._delete_queues(
            [
                queue
                for queue in self._queues
                if queue.max_physical_offset < start and queue.topic not in KEPT_TOPICS
            ]
        )

    async def _delete_queues(self, queues: list[ConsumeQueue]) -> int:
        if queues:
            await self._readiness.change_files(self._queues.take(queues))
        return len(queues)

    async def delete_expired_files(self) -> int:
        """Removes expired log files now, and requests 20 runs of the service (code 329). Returns the number of files removed."""
        self.retention.request_runs()
        return await self.retention.delete_expired()


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
    """A running store: locked, loaded, recovered, its services started. Leaving the block is the clean stop.

    `store_host` is the address (4 or 16 bytes) and the port as int32 that records carry. Raises StoreLocked, StoreSizeMismatch,
    StoreDamaged.
    """
    with disk.lock(config.lock_file):
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
            with trio.CancelScope(shield=True):
                await store.stop()
