"""The message store of a broker (Java `DefaultMessageStore`).

Everything but flushing happens in the task that calls: one thread, no locks. When `append` returns, the record, its queue
unit and its index entries are in the mapped files, so they survive the death of the process.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import trio

from broker.store.appending import Appender
from broker.store.checkpoint import Checkpoint
from broker.store.commit_log import CommitLog
from broker.store.config import COMMIT_LOG_FILE_SIZE, CONSUME_QUEUE_FILE_SIZE, StoreConfig
from broker.store.consume_queues import ConsumeQueues
from broker.store.dispatch import Dispatcher, record_code
from broker.store.files import sync_files
from broker.store.flush import Flusher, InThread
from broker.store.index import Index
from broker.store.index_file import IndexFile
from broker.store.lock import store_lock
from broker.store.page_ahead import have_pages_ahead
from broker.store.query import query_messages
from broker.store.reading import AcceptsCode, AcceptsRecord, AcceptsUnit, Reader
from broker.store.recovery import RecoveryReport, recover
from broker.store.retention import Retention
from broker.store.search import offset_by_time, store_time
from broker.store.segment_list import SegmentList, adopted_size
from broker.store.statistics import Statistics
from broker.store.values import ArrivalListener, BitMapOf, GetResult, QueryResult, StoreMessage
from broker.supervisor import Services, Supervisor, open_services
from codec.errors import CorruptionError
from codec.names import LMQ_PREFIX
from codec.store.consume_queue_ext import Unit, is_address
from codec.store.record import scan_record

__all__ = ["MessageStore", "open_store"]

KEPT_TOPICS = frozenset({"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_OP_HALF_TOPIC"})
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_log = logging.getLogger(__name__)


class MessageStore:
    """Use `open_store`. Offsets named physical are bytes in the commit log, others are numbers in a queue; times are ms."""

    def __init__(
        self, config: StoreConfig, *, now_ms: Callable[[], int], store_host: bytes, in_thread: InThread
    ) -> None:
        self.config = config
        self.recovery = RecoveryReport(0, 0, 0, 0)
        self._now_ms = now_ms
        self._in_thread = in_thread
        log_folder = config.commit_log_folder
        log_size = config.mapped_file_size_commit_log or adopted_size(log_folder) or COMMIT_LOG_FILE_SIZE
        self._log = CommitLog(SegmentList(log_folder, log_size, "mappedFileSizeCommitLog"))
        self.stats = Statistics(self._log)
        queue_size = config.mapped_file_size_consume_queue or CONSUME_QUEUE_FILE_SIZE
        extensions = (config.consume_queue_ext_folder, config.mapped_file_size_consume_queue_ext)
        self._queues = ConsumeQueues(
            config.consume_queue_folder, queue_size, extensions if config.enable_consume_queue_ext else None
        )
        self._index = self._make_index()
        self._checkpoint = Checkpoint(config.checkpoint_file, now_ms())
        self._flusher = Flusher(
            config, self._log, self._queues, self._index, self._checkpoint, self.stats, in_thread
        )
        self._appender = Appender(
            config,
            self._log,
            self._queues,
            self._index,
            self.stats,
            now_ms=now_ms,
            store_host=store_host,
        )
        self._reader = Reader(config, self._log)
        self.retention = Retention(config, self._log, self._queues, self._index, self.stats, now_ms)
        self._log.space_wanted = self.retention.look_for_space
        self.append = self._appender.append
        self.append_batch = self._appender.append_batch
        self.append_run = self._appender.append_run
        self.begin_batch = self._appender.begin_batch
        self.end_batch = self._appender.end_batch
        self._full_index_files: list[IndexFile] = []
        self._chores = trio.Event()

    def _make_index(self) -> Index | None:
        config = self.config
        if not config.message_index_enable:
            return None
        return Index(
            config.index_folder,
            config.max_hash_slot_num,
            config.max_index_num,
            now_ms=self._now_ms,
            completed=self._note_full_index_file,
        )

    def _note_full_index_file(self, file: IndexFile) -> None:
        self._full_index_files.append(file)
        self._chores.set()

    def reconfigure(self, wanted: StoreConfig) -> None:
        """Takes over what can change while the store is open."""
        self.config = config = self.config.changed_to(wanted)
        self._flusher.config = self.retention.config = config
        self._appender.configure(config)
        self._reader.configure(config)

    # --- opening and closing

    def load(self) -> None:
        """Maps the folder and recovers. StoreError if it cannot be used."""
        self.config.root.mkdir(parents=True, exist_ok=True)
        abort = self.config.abort_file
        clean = not abort.exists()
        same_boot = not clean and abort.read_bytes() == _boot_id() != b""
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
        abort.write_bytes(_boot_id())
        sync_files([abort], [abort.parent])

    def start(self, services: Services) -> None:
        """Starts the services."""
        self.retention.look_for_space()
        self._flusher.start(services)
        services.start("retention", self.retention.run)
        services.start("store chores", self._do_chores)
        if not self.config.sync_flush:
            services.start("page ahead", lambda: have_pages_ahead(self._log, self._in_thread))

    async def _do_chores(self) -> None:
        while True:
            await self._flusher.create_ahead()
            while self._full_index_files:
                file = self._full_index_files.pop(0)
                await self._flusher.flush_index_file(file.path, file.end_timestamp)
            with trio.move_on_after(1):
                await self._chores.wait()
            self._chores = trio.Event()

    async def stop(self) -> None:
        """Flushes everything and removes the abort file, unless the disk refused."""
        try:
            if not self.stats.damaged:
                await self._flusher.flush_everything()
                self.config.abort_file.unlink(missing_ok=True)
        except OSError as error:
            _log.error("the store could not be flushed at its stop: %s", error)
        finally:
            self.close()

    def close(self) -> None:
        """Lets go of the files without flushing, as a killed process would."""
        if self._index is not None:
            self._index.close()
        self._queues.close()
        self._log.close()

    # --- writing

    async def wait_flushed(self, end_offset: int) -> bool:
        """SYNC_FLUSH: waits until the log is on the disk up to `end_offset`; False on timeout. ASYNC_FLUSH: True."""
        return await self._flusher.wait_flushed(end_offset)

    async def make_durable(self) -> bool:
        """Puts the log on the disk as it is now, whatever the flush type: for a table that says what has been stored."""
        return await self._flusher.make_durable()

    def add_arrival_listener(self, listener: ArrivalListener) -> None:
        """`listener` hears of every message that gets a queue offset, before `append` or `end_batch` returns; it must not raise."""
        self._appender.listeners.append(listener)

    def set_schedule_tags_code(self, code: Callable[[StoreMessage, int], int]) -> None:
        """Replaces how units of SCHEDULE_TOPIC_XXXX get their deliver time: `code(message, store_timestamp)`."""
        self._appender.schedule_tags_code = code

    def set_bit_map(self, bit_map: BitMapOf) -> None:
        """`bit_map(topic, properties)` is asked for each message whose queue has an extension; it must not raise."""
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
        accepts_unit: AcceptsUnit | None = None,
    ) -> GetResult:
        """Records of a queue from `offset` on, filtered by tags code, by the queue's extension, and then by record."""
        queue = self._queues.find(topic, queue_id)
        result = self._reader.get(queue, offset, max_nums, accepts_code, accepts_record, accepts_unit)
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
        return offset_by_time(self._log, self._queues.find(topic, queue_id), timestamp)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Store time of a message; -1 if it does not exist."""
        return store_time(self._log, self._queues.find(topic, queue_id), queue_offset)

    def earliest_store_time(self, topic: str | None = None, queue_id: int = 0) -> int:
        """Store time of the first message of a queue, or of the whole log without a topic; -1 if there is none."""
        if topic is not None:
            return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))
        record = self._log.record(self._log.start)
        return -1 if record is None else self._log.store_timestamp(self._log.start, len(record))

    def record_at(self, physical_offset: int) -> memoryview | None:
        """The record that starts at an offset of the commit log."""
        return self._log.record(physical_offset)

    def record_at_size(self, physical_offset: int, size: int) -> memoryview | None:
        """The bytes of a record whose size is known."""
        return self._log.slice(physical_offset, size)

    def consume_queue_entries(
        self, topic: str, queue_id: int, start: int, count: int
    ) -> list[tuple[int, int, int]]:
        """Units (physical offset, size, tags code), at most `count`, not beyond one queue file.

        Where the code is the address of an extension, it is the code that stands there, else that of the record.
        """
        units = self.consume_queue_units(topic, queue_id, start, count)
        return [
            (offset, size, self._code(topic, offset, size, extension) if is_address(code) else code)
            for offset, size, code, extension in units
        ]

    def consume_queue_units(
        self, topic: str, queue_id: int, start: int, count: int
    ) -> list[tuple[int, int, int, Unit | None]]:
        """The same as they stand in the file, and their extensions."""
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return []
        units = queue.units(max(start, queue.min_offset), count)
        return [(offset, size, code, queue.extended(code)) for offset, size, code in units]

    def _code(self, topic: str, offset: int, size: int, extension: Unit | None) -> int:
        """0 when neither extension nor record is there."""
        if extension is not None:
            return extension.tags_code
        record = self._log.slice(offset, size)
        try:
            return record_code(self._appender.delay_levels, topic, scan_record(record or b""))
        except CorruptionError:
            return 0

    def query(self, topic: str, key: str, max_num: int, begin: int, end: int) -> QueryResult:
        """Messages whose keys hash as `key` does, stored in [begin, end], at most 64."""
        self._appender.announce()
        limit = min(max_num, self.config.max_msgs_num_batch)
        return query_messages(self._log, self._index, topic, key, limit, begin, end)

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

    def delete_topic(self, topic: str) -> int:
        """Removes a topic's queues; its records go with their log files. Returns how many queues there were."""
        return self._queues.destroy_topic(topic)

    def clean_unused(self, topics: Iterable[str]) -> int:
        """Removes the queues of all topics but these (codes 316, 215). Returns how many topics went."""
        keep = KEPT_TOPICS.union(topics)
        gone = [topic for topic in self.topics() if topic not in keep and not topic.startswith(LMQ_PREFIX)]
        self._queues.destroy(gone)
        return len(gone)

    def clean_expired_consume_queues(self) -> int:
        """Removes queues that only know records before the log's start (code 306). Returns how many."""
        start = self._log.start
        gone = [
            queue
            for queue in self._queues
            if queue.max_physical_offset < start and queue.topic not in KEPT_TOPICS
        ]
        for queue in gone:
            self._queues.destroy_queue(queue)
        return len(gone)

    def delete_expired_files(self) -> int:
        """Removes expired log files now, and asks the service for 20 runs (code 329). Returns how many files went."""
        self.retention.request_runs()
        return self.retention.delete_expired()


def _boot_id() -> bytes:
    """Tells whether the machine was started anew since; Java ignores what the abort file holds."""
    try:
        return BOOT_ID.read_bytes().strip()
    except OSError:
        return b""


@contextlib.asynccontextmanager
async def open_store(
    config: StoreConfig,
    *,
    now_ms: Callable[[], int],
    store_host: bytes,
    in_thread: InThread = trio.to_thread.run_sync,
    supervisor: Supervisor | None = None,
) -> AsyncIterator[MessageStore]:
    """A running store: locked, loaded, recovered, its services started. Leaving the block is the clean stop.

    `store_host` is the address (4 or 16 bytes) and the port as int32 that records carry. Raises StoreLocked,
    StoreSizeMismatch, StoreDamaged.
    """
    with store_lock(config.lock_file):
        store = MessageStore(config, now_ms=now_ms, store_host=store_host, in_thread=in_thread)
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
