"""The commit-log offset at which the check of a start begins.

After a power cut, everything before the offset in the checkpoint is on the disk. If the machine was not
restarted since, every page is as it was written: then only the last files are checked, and at most
`CHECKED_BYTES` before the last record that has a queue entry.
"""

from __future__ import annotations

import enum
import logging

from rmqcli.broker.store.checkpoint import Checkpoint
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.log_walk import scan_at, walk
from rmqcli.broker.store.segment import Segment
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.reading import peek_record, store_timestamp_at
from rmqcli.codec.store.file_names import RECOVERED_FILES
from rmqcli.codec.store.record_layout import MAGIC_V1, MAGIC_V2

CHECKED_BYTES = 64 << 20

_log = logging.getLogger(__name__)


class Stop(enum.Enum):
    """The way the store was left: by a clean stop, a killed process, or a machine that lost power."""

    CLEAN = enum.auto()
    KILLED = enum.auto()
    POWER_LOST = enum.auto()


def usual_start(
    config: StoreConfig, log: CommitLog, queues: ConsumeQueues, checkpoint: Checkpoint, stop: Stop
) -> int:
    """Return the offset at which the check begins if no page was lost."""
    last_files = log.segments.segments[-RECOVERED_FILES:]
    start = last_files[0].start if stop is Stop.CLEAN else _start_by_times(config, log, checkpoint)
    return max(start, _record_before_end(log, queues))


def safe_start(config: StoreConfig, log: CommitLog, checkpoint: Checkpoint) -> int:
    """Return the offset at which the check begins after a power cut: everything before it is on the disk."""
    known = checkpoint.log_offset
    if known >= 0 and checkpoint.is_current:
        start = known
    else:
        start = _start_by_times(config, log, checkpoint)
        newest = _newest_timestamp(log)
        # With a clock that was ahead, the times would select a file too late: after a check that began there,
        # queue offsets were assigned twice.
        if max(checkpoint.physic, checkpoint.logics) > newest:
            _log.warning("the checkpoint is newer than all messages: the whole commit log is read")
            start = log.start
        # A Java broker has replaced the times since, but not our offset, which still holds.
        start = min(start, known) if known >= 0 else start
    return start if log.start <= start <= log.segments.segments[-1].end else log.start


def _start_by_times(config: StoreConfig, log: CommitLog, checkpoint: Checkpoint) -> int:
    """Return the start of the last file whose first record is older than the checkpoint."""
    with_index = config.message_index_enable and config.message_index_safe
    times = checkpoint.numbers
    limit = times.min_timestamp_index if with_index else times.min_timestamp
    for segment in reversed(log.segments.segments):
        if 0 < _first_timestamp(segment) <= limit:
            return segment.start
    return log.start


def _first_timestamp(segment: Segment) -> int:
    """Return the store time in ms of the first record of a file; 0 if there is none."""
    if not segment.data_end:
        return 0
    _, magic = peek_record(segment.view, 0)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return 0
    return store_timestamp_at(segment.view, 0)


def _newest_timestamp(log: CommitLog) -> int:
    """Return the highest store time in ms in the last file that has records; 0 if there is none."""
    newest = 0

    def visit(_: int, scan: RecordScan) -> None:
        nonlocal newest
        newest = max(newest, scan.store_timestamp)

    for segment in reversed(log.segments.segments):
        if _first_timestamp(segment):
            walk(log, segment.start, visit)
            break
    return newest


def _record_before_end(log: CommitLog, queues: ConsumeQueues) -> int:
    """Return the offset of a whole record about `CHECKED_BYTES` before the end of the last one with a queue
    entry; 0 if there is none."""
    last = max(queues, key=lambda queue: queue.max_physical_offset, default=None)
    target = queues.max_physical_offset - CHECKED_BYTES
    if last is None or target <= log.start:
        return 0
    number = last.first_at(target)
    if number == last.next_offset:
        return 0
    offset, _, _ = last.entry(number)
    return offset if has_record(log, last, number, check_crc=True) else 0


def has_record(log: CommitLog, queue: ConsumeQueue, number: int, *, check_crc: bool = False) -> bool:
    """Return True if the log has the record that entry `number` of a queue refers to."""
    offset, size, _ = queue.entry(number)
    segment = log.segments.find(offset)
    if segment is None:
        return False
    position = offset - segment.start
    try:
        scan = scan_at(segment, position, min(position + size, segment.found_size), check_crc=check_crc)
    except CorruptionError:
        return False
    known = (offset, size, number, queue.queue_id, queue.topic.encode())
    return known == (
        scan.physical_offset,
        scan.total_size,
        scan.queue_offset,
        scan.queue_id,
        scan.topic,
    )
