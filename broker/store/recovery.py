"""Recovery of a store when it opens (Java `DefaultMessageStore.recover`, `CommitLog.recoverNormally`,
`recoverAbnormally`).

1. Queues: valid entries from the third-last file of each on.
2. Log: record by record with CRC, from the third-last file after a clean stop; after an unclean one from the
   last file whose first record is older than the checkpoint, dispatching each record again (puts are
   idempotent).
3. The log ends at the first record that is not whole; what follows is removed. Queue entries beyond it are
   removed too.
4. After a clean stop the log behind the last queue entry is dispatched.
5. The index gets what is missing; after an unclean stop the last message that it knows is put again, with all
   its keys.

Beyond Java: if the machine was not restarted since (clean stop, or a kill), all pages are what was written,
so only the last 64 MiB that the queues know, and what follows, are checked, and index files are kept and
completed instead of removed. A queue without entries for records in the log, or without their extensions, is
rebuilt from the whole log. Bytes behind the end are zeroed so that they cannot come to life behind new
records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from broker.store.checkpoint import Checkpoint
from broker.store.commit_log import CommitLog
from broker.store.config import StoreConfig
from broker.store.consume_queues import ConsumeQueues
from broker.store.dispatch import Dispatcher
from broker.store.index import Index
from broker.store.segment import Segment
from codec.errors import CorruptionError
from codec.store.file_names import RECOVERED_FILES
from codec.store.record import RecordScan, peek_record, scan_record, store_timestamp_at
from codec.store.record_layout import MAGIC_FILLER, MAGIC_V1, MAGIC_V2

INDEX_CATCH_UP = 2 << 30
"""Bytes of log, from its end, that are read at most to complete the index."""
ZERO_BYTES = 8
CHECKED_BYTES = 64 << 20
RELEASED_BYTES = 16 << 20

Visit = Callable[[int, RecordScan], None] | None
_log = logging.getLogger(__name__)


class RecoveryReport(NamedTuple):
    """`start` and `end` of the part of the log that was checked, records in it, queues that were rebuilt."""

    start: int
    end: int
    records: int
    rebuilt_queues: int


def walk(
    log: CommitLog, start: int, visit: Visit, *, end: int | None = None, check_crc: bool = False
) -> tuple[int, int]:
    """Visits whole records; returns where the first one that is not whole begins, and the count."""
    count = 0
    offset = start
    for segment in list(log.segments.segments):
        if segment.end <= start:
            continue
        limit = segment.size if end is None else min(segment.size, end - segment.start)
        limit = min(limit, segment.found_size)
        offset, visited, closed = _walk_segment(
            segment, max(start - segment.start, 0), limit, visit, check_crc
        )
        count += visited
        if not closed:
            break
    return offset, count


def _walk_segment(
    segment: Segment, position: int, limit: int, visit: Visit, check_crc: bool
) -> tuple[int, int, bool]:
    view, base, count = segment.view, segment.start, 0
    released = position
    while position < limit:
        try:
            scan = scan_record(view, position, limit, check_crc=check_crc)
        except CorruptionError:
            return base + position, count, False
        if scan.magic == MAGIC_FILLER:
            return segment.end, count, True
        if scan.physical_offset != base + position or _is_torn(view, position, scan):
            return base + position, count, False
        if visit is not None:
            visit(base + position, scan)
        position += scan.total_size
        count += 1
        if position - released > RELEASED_BYTES:
            segment.release_pages(released, RELEASED_BYTES)
            released = position
    return base + position, count, position >= segment.size


def _is_torn(view: memoryview, position: int, scan: RecordScan) -> bool:
    """True if the end of the last record never reached the disk: no checksum covers topic and properties."""
    if not scan.properties.endswith(b"\0"):
        return False
    behind = position + scan.total_size
    return not any(view[behind : behind + ZERO_BYTES])


def recover(
    config: StoreConfig,
    log: CommitLog,
    queues: ConsumeQueues,
    index: Index | None,
    checkpoint: Checkpoint,
    dispatcher: Dispatcher,
    *,
    clean: bool,
    same_boot: bool,
) -> RecoveryReport:
    """Makes log, queues and index agree, and sets where the next record goes.

    `same_boot` says that no power was lost: every page that was written is there.
    """
    for queue in queues:
        queue.recover()
    if not log.segments.segments:
        queues.destroy(list(queues))
        log.end_at(0)
        if index is not None:
            index.truncate(0)
        return RecoveryReport(0, 0, 0, 0)
    last_files = log.segments.segments[-RECOVERED_FILES:]
    start = last_files[0].start if clean else _unclean_start(config, log, checkpoint)
    if clean or same_boot:
        start = max(start, _record_before_end(log, queues))
    for queue in queues if not clean and not same_boot else ():
        queue.distrust(start)
    dispatcher.partial = start > log.start
    visit = None if clean else dispatcher.put_entry
    end, count = walk(log, start, visit, check_crc=config.check_crc_on_recover)
    log.end_at(end)
    if not clean:
        log.flushed = min(start, end)
    for queue in queues:
        queue.truncate(end)
        if queue.must_rebuild:
            dispatcher.gaps.add((queue.topic, queue.queue_id))
    behind = clean and _dispatch_tail(log, queues, dispatcher)
    rebuilt = _rebuild_gaps(log, queues, dispatcher)
    if index is not None:
        if not clean:
            index.take_back()
        index.truncate(end)
        if behind or not clean or not index.files:
            _catch_up_index(log, index, dispatcher)
    for queue in queues:
        queue.correct_min(log.start)
    return RecoveryReport(start, end, count, rebuilt)


def _unclean_start(config: StoreConfig, log: CommitLog, checkpoint: Checkpoint) -> int:
    with_index = config.message_index_enable and config.message_index_safe
    times = checkpoint.times
    limit = times.min_timestamp_index if with_index else times.min_timestamp
    for segment in reversed(log.segments.segments):
        if 0 < _first_timestamp(segment) <= limit:
            return segment.start
    return log.start


def _record_before_end(log: CommitLog, queues: ConsumeQueues) -> int:
    """Begin of a whole record `CHECKED_BYTES` before the end that the queues know; 0 if none."""
    target = queues.max_physical_offset - CHECKED_BYTES
    if target <= log.start:
        return 0
    last = max(queues, key=lambda queue: queue.max_physical_offset)
    number = last.first_at(target)
    offset, size, _ = last.entry(number)
    record = log.segments.find(offset)
    if record is None:
        return 0
    position = offset - record.start
    try:
        scan = scan_record(record.view, position, min(position + size, record.found_size), check_crc=True)
    except CorruptionError:
        return 0
    known = (offset, size, number, last.queue_id)
    return offset if known == (scan.physical_offset, scan.total_size, scan.queue_offset, scan.queue_id) else 0


def _first_timestamp(segment: Segment) -> int:
    """Store time in ms of a file's first record; 0 if there is none."""
    _, magic = peek_record(segment.view, 0)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return 0
    return store_timestamp_at(segment.view, 0)


def _catch_up_index(log: CommitLog, index: Index, dispatcher: Dispatcher) -> None:
    begin = max(index.end_offset, log.start)
    if log.end - begin > INDEX_CATCH_UP:
        segment = log.segments.find(log.end - INDEX_CATCH_UP)
        begin = segment.start if segment else log.start
        _log.warning("messages before %d of the commit log will not be found by key", begin)
    dispatcher.indexed = index.end_offset
    walk(log, begin, dispatcher.put_index, end=log.end)
    index.drain()


def _dispatch_tail(log: CommitLog, queues: ConsumeQueues, dispatcher: Dispatcher) -> bool:
    """Gives records behind the last entry of any queue their entries; True if there were any."""
    start = max(queues.max_physical_offset, log.start)
    dispatcher.partial = False
    reached, count = walk(log, start, dispatcher.put_entry, end=log.end)
    if reached < log.end:
        _log.warning("no record begins at %d, where the consume queues end: they are rebuilt", start)
        queues.destroy(list(queues))
        dispatcher.gaps.clear()
        walk(log, log.start, dispatcher.put_entry, end=log.end)
        return True
    return count > 0


def _rebuild_gaps(log: CommitLog, queues: ConsumeQueues, dispatcher: Dispatcher) -> int:
    gaps, dispatcher.gaps = dispatcher.gaps, set()
    if not gaps:
        return 0
    _log.warning("entries of consume queues are missing, they are rebuilt: %s", sorted(gaps))
    queues.destroy([queue for key in gaps if (queue := queues.find(*key)) is not None])
    dispatcher.partial = False
    walk(log, log.start, partial(dispatcher.put_entry_of, gaps), end=log.end)
    return len(gaps)
