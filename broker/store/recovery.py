"""Recovery of a store when it opens (Java `DefaultMessageStore.recover`, `CommitLog.recoverNormally`,
`recoverAbnormally`).

1. Queues: find the valid entries, from the third-last file of each queue on.
2. Log: check record by record, with CRC, from the third-last file after a clean stop; after a power cut, from
   the offset up to which, according to the checkpoint, everything is on the disk.
3. The log ends at the first incomplete record; the bytes after it are removed, or the store is refused
   (damage.py). Queue entries after it are removed as well.
4. Records that may not have entries are dispatched: after an unclean stop those that were read (puts are
   idempotent), after a clean one those after the last queue entry.
5. The index gets the missing items; after an unclean stop, the last message in it is added again, with all
   its keys.

Beyond Java: if the machine was not restarted in between (clean stop, or a kill), all pages are as they were
written. Then only the last 64 MiB with queue entries, and the records after them, are checked, and index
files are kept and completed instead of removed. Queues and index files are derived data, which never prevents
a store from opening: where they contradict themselves or the log, they are rebuilt. Bytes after the end are
durably zeroed, so that they cannot reappear after new records. Nothing is changed until it is certain that
the log may be opened.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple

from rmqcli.broker.disk import Disk
from rmqcli.broker.errors import StoreDamaged
from rmqcli.broker.store.checkpoint import OPEN, REBUILDING, Checkpoint, DeletedTopics
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.damage import Behind, copy_aside, look_behind, refuse
from rmqcli.broker.store.dispatch import Dispatcher
from rmqcli.broker.store.index import Index
from rmqcli.broker.store.log_walk import LogBroken, stored_at, walk, walk_whole
from rmqcli.broker.store.recovery_start import Stop, has_record, safe_start, usual_start
from rmqcli.codec.names import LMQ_PREFIX
from rmqcli.codec.store.consume_queue import ENTRY_SIZE, FILLER_SIZE

INDEX_CATCH_UP = 2 << 30
"""Maximum number of bytes at the end of the log that are read to complete the index."""

_GONE = (
    "the commit log ends at offset %d, and was on the disk up to offset %d: the messages in between are lost, and "
    "their queue entries are removed"
)
_REMOVED = "the commit log ends at offset %d: the %d bytes behind it are no whole record and are removed"
_log = logging.getLogger(__name__)


class RecoveryReport(NamedTuple):
    """`start` and `end` of the checked part of the log, the number of its records, and of rebuilt queues."""

    start: int
    end: int
    records: int
    rebuilt_queues: int


def recover(
    config: StoreConfig,
    disk: Disk,
    log: CommitLog,
    queues: ConsumeQueues,
    index: Index | None,
    checkpoint: Checkpoint,
    deleted: DeletedTopics,
    dispatcher: Dispatcher,
    stop: Stop,
) -> RecoveryReport:
    """Make log, queues and index agree, and set the offset of the next record. Raises StoreDamaged.
    Blocks."""
    while True:
        try:
            return _recover(config, disk, log, queues, index, checkpoint, deleted, dispatcher, stop)
        except LogBroken as broken:
            # Queues or the index needed the whole log, which is damaged before the part that was checked. It
            # is refused or cut there, and recovery starts over.
            _cut_log(config, disk, log, queues, checkpoint, stop, broken.offset)


def _recover(
    config: StoreConfig,
    disk: Disk,
    log: CommitLog,
    queues: ConsumeQueues,
    index: Index | None,
    checkpoint: Checkpoint,
    deleted: DeletedTopics,
    dispatcher: Dispatcher,
    stop: Stop,
) -> RecoveryReport:
    if not log.segments.segments:
        _refuse_without_log(config, queues)
        queues.destroy(list(queues))
        log.end_at(0)
        deleted.cut(0)
        if index is not None:
            index.truncate(0)
        return RecoveryReport(0, 0, 0, 0)
    marked = [queue for queue in queues if queue.topic in deleted.ends]
    gone = [queue for queue in marked if deleted.has(queue.topic, queue.first_record)]
    # If the disk refused the deletion, messages were stored in these queues afterwards: they are rebuilt.
    dispatcher.gaps.update((queue.topic, queue.queue_id) for queue in gone)
    # Detached, so that nothing below sees them; their files are removed once the log is accepted.
    destroy_gone = queues.take(gone)
    power_lost = stop is Stop.POWER_LOST
    start = safe_start(config, log, checkpoint) if power_lost else 0
    for queue in queues:
        # Only a power cut loses single pages. Without one, entries after an invalid entry mean damage.
        queue.recover(start if power_lost else log.segments.segments[-1].end)
    if not power_lost:  # this start depends on the last queue entries, which are known only now
        start = usual_start(config, log, queues, checkpoint, stop)
    # No record is torn after a clean stop, nor before the offset up to which the log is known to be synced.
    doubt_from = None if stop is Stop.CLEAN else max(start if power_lost else checkpoint.log_offset, 0)
    check_crc = config.check_crc_on_recover
    end, count = walk(log, start, None, check_crc=check_crc, doubt_from=doubt_from, power_lost=power_lost)
    # Nothing is changed before this call, which refuses a damaged log.
    _cut_log(config, disk, log, queues, checkpoint, stop, end)
    destroy_gone()
    for queue in queues:
        queue.cut()
    deleted.cut(end)
    is_left_behind = _recover_queues(config, log, queues, checkpoint, dispatcher, stop, start)
    rebuilt = _rebuild_gaps(log, queues, checkpoint, dispatcher)
    if index is not None:
        _recover_index(config, log, index, dispatcher, stop, is_left_behind)
    for queue in queues:
        queue.correct_min(log.start)
    _mark_unsynced(log, queues, checkpoint, stop, start)
    return RecoveryReport(start, end, count, rebuilt)


# --- the log


def _refuse_without_log(config: StoreConfig, queues: ConsumeQueues) -> None:
    """Raise StoreDamaged if queues have entries but the log is gone: its disk may not be mounted. Java starts
    an empty store and removes the queues. Blocks.
    """
    for queue in queues:
        queue.recover(0)
    entries = sum(queue.next_offset - queue.min_offset for queue in queues)
    if entries:
        raise StoreDamaged(
            f"{config.commit_log_folder}: there is no commit log, but consume queues have {entries} entries. If "
            f"the folder is on another disk, mount that; to begin an empty store, remove {config.consume_queue_folder}"
        )


def _cut_log(
    config: StoreConfig,
    disk: Disk,
    log: CommitLog,
    queues: ConsumeQueues,
    checkpoint: Checkpoint,
    stop: Stop,
    end: int,
) -> None:
    behind = look_behind(log, end)
    # These bytes were on the disk, so they are not a torn write: a copy is kept.
    is_safe = stop is Stop.CLEAN or end < checkpoint.log_offset
    if behind.record is None:
        must_copy = is_safe and behind.length > 0
    else:
        must_copy = True
        is_damaged = not _is_explained(log, queues, checkpoint, stop, end, behind)
        if is_damaged and not config.move_damaged_log_aside:
            raise refuse(log, end, behind)
    if must_copy:
        folder = copy_aside(disk, log, end)
        _log.error(_REMOVED + ", a copy is in %s", end, behind.length, folder)
    elif behind.length:
        _log.warning(_REMOVED, end, behind.length)
    elif end < checkpoint.log_offset:
        _log.error(_GONE, end, checkpoint.log_offset)
    log.end_at(end)
    checkpoint.cut(end)


def _is_explained(
    log: CommitLog,
    queues: ConsumeQueues,
    checkpoint: Checkpoint,
    stop: Stop,
    end: int,
    behind: Behind,
) -> bool:
    """Return True if whole records after an incomplete one do not indicate damage."""
    if stop is Stop.POWER_LOST:
        if checkpoint.log_offset >= 0:
            return end >= checkpoint.log_offset
        return behind.record is not None and behind.record.store_timestamp > checkpoint.physic
    if stop is Stop.CLEAN:
        return False
    # A run is written with its first four bytes last: a kill leaves the other records of the run whole.
    segment = log.segments.find(end)
    is_begun = segment is not None and not any(segment.view[end - segment.start :][:4])
    return is_begun and queues.max_physical_offset <= end


def _mark_unsynced(
    log: CommitLog, queues: ConsumeQueues, checkpoint: Checkpoint, stop: Stop, start: int
) -> None:
    """Make the next flush, after an unclean stop, sync all data that may be in the page cache only."""
    log.segments.sync_cuts()
    for queue in queues:
        queue.sync_cuts()
    if stop is Stop.CLEAN:
        return
    known = start if stop is Stop.POWER_LOST else max(checkpoint.log_offset, log.start)
    log.flushed = min(known, log.end)
    # After a power cut, these entries were put again and count as unsynced already.
    for queue in queues if stop is Stop.KILLED else ():
        queue.mark_unsynced(known)


# --- queues


def _recover_queues(
    config: StoreConfig,
    log: CommitLog,
    queues: ConsumeQueues,
    checkpoint: Checkpoint,
    dispatcher: Dispatcher,
    stop: Stop,
    start: int,
) -> bool:
    """Add missing entries of records. Return True if records after the last entry were found after a clean
    stop."""
    for queue in list(queues):
        if stop is Stop.POWER_LOST:
            queue.distrust(start)
        queue.truncate(log.end)
        if queue.must_rebuild or not _is_confirmed(log, queue):
            dispatcher.gaps.add((queue.topic, queue.queue_id))
            queues.destroy([queue])
    must_compare = config.check_store_on_start or _may_lack_entries(queues, checkpoint, stop)
    dispatcher.partial = start > log.start
    is_left_behind = False
    if stop is not Stop.CLEAN:
        walk(log, start, dispatcher.put_entry, end=log.end)
    else:
        is_left_behind = _dispatch_tail(log, queues, dispatcher)
    if must_compare:
        _log.info("the consume queues are compared with the whole commit log")
        walk_whole(log, log.start, dispatcher.compare_entry)
    return is_left_behind


def _is_confirmed(log: CommitLog, queue: ConsumeQueue) -> bool:
    """Return False if the last entry contradicts the log. Entries of light queues (LMQ) are not compared:
    their records belong to other topics."""
    if not queue.max_physical_offset or queue.topic.startswith(LMQ_PREFIX):
        return True
    last, first = queue.next_offset - 1, queue.segments.start // ENTRY_SIZE
    # A filler has no record to compare.
    while last > first and queue.entry(last)[1] == FILLER_SIZE:
        last -= 1
    return queue.entry(last)[0] < log.start or has_record(log, queue, last)


def _may_lack_entries(queues: ConsumeQueues, checkpoint: Checkpoint, stop: Stop) -> bool:
    if checkpoint.queues_crc == REBUILDING:
        return True
    is_known = stop is Stop.CLEAN and checkpoint.is_current and checkpoint.queues_crc != OPEN
    return is_known and checkpoint.queues_crc != queues.crc()


def _dispatch_tail(log: CommitLog, queues: ConsumeQueues, dispatcher: Dispatcher) -> bool:
    """Add entries of the records after the last entry of any queue. Return True if there were any."""
    start = max(queues.max_physical_offset, log.start)
    # After a clean stop no earlier entry is missing, so that a queue without files begins with this record.
    dispatcher.partial = False
    reached, count = walk(log, start, dispatcher.put_entry, end=log.end)
    if reached < log.end:
        _log.warning("no record begins at %d, where the consume queues end: they are rebuilt", start)
        # The whole log is read before queues are removed, so that refused damage leaves them unchanged.
        walk_whole(log, log.start)
        queues.destroy(list(queues))
        dispatcher.gaps.clear()
        walk(log, log.start, dispatcher.put_entry, end=log.end)
        return True
    return count > 0


def _rebuild_gaps(
    log: CommitLog, queues: ConsumeQueues, checkpoint: Checkpoint, dispatcher: Dispatcher
) -> int:
    gaps, dispatcher.gaps = dispatcher.gaps, set()
    if not gaps:
        return 0
    _log.warning("entries of consume queues are missing, they are rebuilt: %s", sorted(gaps))
    try:
        # The whole log is read before queues are removed, so that refused damage leaves them unchanged.
        walk_whole(log, log.start)
    except LogBroken:
        # `recover` starts over, and would not find all of these again: the files of some are gone.
        dispatcher.gaps = gaps
        raise
    # If the rebuild is interrupted, the next start compares all queues with the log.
    checkpoint.queues_crc = REBUILDING
    checkpoint.save(checkpoint.content())
    queues.destroy([queue for key in gaps if (queue := queues.find(*key)) is not None])
    dispatcher.partial = False
    walk(log, log.start, partial(dispatcher.rebuild_entry, gaps), end=log.end)
    dispatcher.end_rebuild()
    return len(gaps)


# --- the index


def _recover_index(
    config: StoreConfig,
    log: CommitLog,
    index: Index,
    dispatcher: Dispatcher,
    stop: Stop,
    is_left_behind: bool,
) -> None:
    index.drop_doubted()
    if stop is not Stop.CLEAN:
        index.take_back()
    if config.check_store_on_start:
        index.truncate(0)
    # `|` and not `or`: both have to run.
    is_cut = index.drop_unsound(partial(stored_at, log)) | index.truncate(log.end)
    if is_cut or is_left_behind or stop is not Stop.CLEAN or not index.files:
        reach = log.end if config.check_store_on_start else INDEX_CATCH_UP
        _catch_up_index(log, index, dispatcher, reach)


def _catch_up_index(log: CommitLog, index: Index, dispatcher: Dispatcher, reach: int) -> None:
    begin = max(index.end_offset, log.start)
    if log.end - begin > reach:
        segment = log.segments.find(log.end - reach)
        begin = segment.start if segment else log.start
        _log.warning("messages before %d of the commit log will not be found by key", begin)
    dispatcher.indexed = index.end_offset
    walk_whole(log, begin, dispatcher.put_index)
    index.drain()
