"""The second way into a store: records of another broker, with its offsets (Java `CommitLog.appendData`).

Java's slave writes the bytes it receives and examines them later. Here a run of records is checked before it
is written: sizes, magic, the offset that each record names, the CRC of its body. After that, everything is as
for sends: queue entry, index items and listeners follow before the call returns.

A queue follows its records. A queue that begins again at 0 belongs to a topic that was deleted and created
again. Any other record whose queue offset does not continue its queue gets no entry (5.x: the batches of a
BatchCQ topic), and neither does a record of an impossible queue. Such records are in the commit log only; one
log line per queue reports this.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rmqcli.broker.disk import Disk
from rmqcli.broker.errors import ReplicaRefused
from rmqcli.broker.store.appending import Appender
from rmqcli.broker.store.checkpoint import Checkpoint, DeletedTopics
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.damage import copy_aside
from rmqcli.broker.store.dispatch import Dispatcher
from rmqcli.broker.store.index import Index
from rmqcli.broker.store.log_walk import walk
from rmqcli.broker.store.prepare import Room
from rmqcli.broker.store.readiness import Readiness
from rmqcli.broker.store.recovery import INDEX_CATCH_UP
from rmqcli.broker.store.values import Statistics
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.dispatch import has_place, has_queue_entry
from rmqcli.codec.records.reading import peek_record, scan_record
from rmqcli.codec.store.record_layout import FILLER_HEAD_SIZE, MAGIC_FILLER

PIECE: Final = 256 * 1024
"""Bytes of the log that are indexed again between two checkpoints of the event loop."""
MOST_GAPS: Final = 1024
"""Maximum number of queues with records without entries that are reported in the log."""
_log = logging.getLogger(__name__)


class _Checked(NamedTuple):
    """A record of a run, which gets a queue entry if `has_entry`."""

    offset: int
    scan: RecordScan
    topic: str
    has_entry: bool


class Replica:
    """Appends records at the offsets they name, and removes records that another broker does not have."""

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        checkpoint: Checkpoint,
        deleted: DeletedTopics,
        statistics: Statistics,
        readiness: Readiness,
        appender: Appender,
    ) -> None:
        self._disk = disk
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._deleted = deleted
        self._statistics = statistics
        self._room = Room(log, readiness)
        self._appender = appender
        self._gaps: set[tuple[str, int]] = set()

    def append_at(self, offset: int, run: bytes) -> int:
        """Store whole records of one file, or the head of the filler that ends it; return the new end of the
        log.

        `offset` is the end of the log, or the start of any file if the log is empty. Raises ReplicaRefused if
        the bytes are not such records or do not belong there, or if the disk refuses, and NotReady like
        `append`. Nothing is stored in these cases.
        """
        self._check_place(offset)
        if run[4:8] == MAGIC_FILLER.to_bytes(4, "big"):
            return self._end_file(offset, run)
        position = offset % self._log.segments.size
        # With files of the same size, the other broker left room for the head of a filler.
        if position + len(run) + FILLER_HEAD_SIZE > self._log.segments.size:
            raise self._other_size(f"records end {position + len(run)} bytes behind the begin of a file")
        records = list(self._checked(offset, run))
        # Before the write: a record whose entry found no room would stay in the log without one.
        self._make_ready(records)
        if not self._log.segments.segments:
            # After all checks, so that a refused run leaves an empty log as it was.
            self._log.begin_at(offset)
        while not self._log.write(run):
            if self._room.make(len(run)) is not None:
                raise ReplicaRefused(f"the commit log cannot grow behind {offset}: see the log")
        try:
            self._store(records)
        except OSError as error:
            self._appender.half_stored(error)
            raise ReplicaRefused(f"the queues cannot follow the commit log: {error}") from None
        return self._log.end

    def _check_place(self, offset: int) -> None:
        log = self._log
        if not self._statistics.writable:
            why = "the disk is full" if self._statistics.disk_full else "the disk failed"
            raise ReplicaRefused(f"the store takes no more messages: {why}")
        if not log.segments.segments:
            if offset % log.segments.size:
                raise self._other_size(f"the first byte has offset {offset}, no multiple of the file size")
        elif offset != log.end:
            raise ReplicaRefused(
                f"bytes from offset {offset} on do not continue a log that ends at {log.end}"
            )

    def _other_size(self, sign: str) -> ReplicaRefused:
        return ReplicaRefused(
            f"{sign}: the files of this store have {self._log.segments.size} bytes and those of the other "
            f"broker have not; set mappedFileSizeCommitLog to its value, and begin with an empty folder"
        )

    def _end_file(self, offset: int, head: bytes) -> int:
        """End the file as the other broker did, and begin the next one."""
        size, _ = peek_record(head)
        file_size = self._log.segments.size
        if offset % file_size + size != file_size or not self._log.segments.segments:
            raise self._other_size(f"a file ends at offset {offset + size}")
        if self._room.next_file() is not None:
            raise ReplicaRefused(f"no commit log file can be created behind {offset}: see the log")
        return self._log.end

    def _checked(self, offset: int, run: bytes) -> Iterator[_Checked]:
        position, end = 0, len(run)
        while position < end:
            try:
                scan = scan_record(run, position, check_crc=True)
            except CorruptionError as error:
                raise ReplicaRefused(
                    f"the record at offset {offset + position} is damaged: {error}"
                ) from None
            if scan.physical_offset != offset + position or scan.magic == MAGIC_FILLER:
                raise ReplicaRefused(
                    f"the record at offset {offset + position} says that it is at {scan.physical_offset}"
                )
            topic = str(scan.topic, "utf-8", "replace")
            yield _Checked(offset + position, scan, topic, self._has_entry(scan, topic))
            position += scan.total_size

    def _has_entry(self, scan: RecordScan, topic: str) -> bool:
        if not has_queue_entry(scan.sys_flag):
            return False
        if not has_place(topic, scan.queue_id, scan.queue_offset):
            self._note_gap((topic, scan.queue_id), "record %d is of no queue that can be", scan.queue_offset)
            return False
        return True

    def _make_ready(self, records: list[_Checked]) -> None:
        """Provide the files and blocks for all entries. Raises NotReady, or ReplicaRefused if the disk
        refuses."""
        counts: dict[ConsumeQueue, int] = {}
        for _, scan, topic, has_entry in records:
            if has_entry:
                queue = self._queues.ensure(topic, scan.queue_id)
                if scan.queue_offset and not queue.segments.segments and queue not in counts:
                    self._begin(queue, scan.queue_offset)
                counts[queue] = counts.get(queue, 0) + 1
        for queue, count in counts.items():
            if not self._room.is_ready(queue, count):
                raise ReplicaRefused(f"the queue {queue.topic}-{queue.queue_id} cannot grow: see the log")

    @staticmethod
    def _begin(queue: ConsumeQueue, queue_offset: int) -> None:
        """Make an empty queue begin at an offset: the other broker has deleted the entries before it."""
        try:
            queue.start_at(queue_offset)
        except OSError as error:
            raise ReplicaRefused(f"{queue.segments.folder}: {error}") from None

    # --- after the write

    def _store(self, records: list[_Checked]) -> None:
        self._statistics.last_store_timestamp = records[-1].scan.store_timestamp
        self._appender.follow(
            (offset, scan, topic, self._queue_for(scan, topic) if has_entry else None)
            for offset, scan, topic, has_entry in records
        )

    def _queue_for(self, scan: RecordScan, topic: str) -> ConsumeQueue | None:
        """Return the queue of a record; None if the record does not continue it."""
        queue = self._queues.ensure(topic, scan.queue_id)
        number = scan.queue_offset
        if number != queue.next_offset:
            if number:
                text = "record %d does not continue a queue that ends at %d"
                self._note_gap((queue.topic, queue.queue_id), text, number, queue.next_offset)
                return None
            _log.info("the queue %s-%d begins again", queue.topic, queue.queue_id)
            self._queues.destroy([queue])  # rare, so the files are removed in the event loop
            queue = self._queues.ensure(topic, scan.queue_id)
        return queue

    def _note_gap(self, key: tuple[str, int], text: str, *values: int) -> None:
        if key not in self._gaps and len(self._gaps) < MOST_GAPS:
            self._gaps.add(key)
            _log.error(f"%r-%d: {text}; it has no entry", *key, *values)

    # --- cutting

    def copy_from(self, end: int) -> Path:
        """Copy the log from `end` on to a folder beside it, and return that folder. Blocks; safe to call in a
        worker thread. Raises StoreDamaged if there is no room."""
        return copy_aside(self._disk, self._log, end)

    def cut(self, end: int) -> None:
        """Remove the records from `end` on, where a record begins, with their queue entries and all index
        files that refer to them; `index_again` then restores the items of earlier records. Blocks; no flush
        may run meanwhile. Raises OSError."""
        # Items that still wait are added first; added later, they would refer to records that are gone.
        self._appender.arrivals.announce()
        self._appender.late.finish()
        flushed = self._log.flushed
        self._log.end_at(end)
        # `end_at` counts all that is left as flushed, which it may not be.
        self._log.flushed = min(flushed, end)
        self._deleted.cut(end)
        self._checkpoint.cut(end)
        for queue in self._queues:
            flushed = queue.flushed
            queue.truncate(end)
            queue.flushed = min(flushed, queue.end)
            queue.sync_cuts()
        if self._index is not None:
            # `truncate` knows only what is in files.
            self._index.drain(may_create=True)
            self._index.truncate(end)
        self._log.segments.sync_cuts()

    def index_again(self) -> Iterator[None]:
        """Restore the index items of earlier records that `cut` removed; yield after each part of the log."""
        if self._index is None:
            return
        dispatcher = Dispatcher(self._queues, self._index, self._appender.delay_levels, self._deleted)
        dispatcher.indexed = self._index.end_offset
        offset, piece = max(self._index.end_offset, self._log.start, self._log.end - INDEX_CATCH_UP), PIECE
        # A limit is not the start of a record, as the other two are: the walk begins with the file.
        if offset == self._log.end - INDEX_CATCH_UP:
            offset = offset // self._log.segments.size * self._log.segments.size
        while offset < self._log.end:
            reached, _ = walk(self._log, offset, dispatcher.put_index, end=min(offset + piece, self._log.end))
            if reached == offset and piece > self._log.segments.size:
                _log.error(
                    "no whole record begins at offset %d: messages behind are not found by key", offset
                )
                return
            # A record may be longer than one part: then the next part is twice as long.
            piece = PIECE if reached > offset else piece * 2
            offset = reached
            yield
