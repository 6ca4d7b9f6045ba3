"""Queue offset by store time (Java `ConsumeQueue.getOffsetInQueueByTime`).

The first queue file modified at or after the timestamp is searched, else the last one. An exact hit wins, else the nearer
neighbour in time, the left one on a tie; a time behind all messages gives the last one's offset, not the queue's end.
"""

from __future__ import annotations

from bisect import bisect_left

from broker.store.commit_log import CommitLog
from broker.store.consume_queue import UNIT, ConsumeQueue

__all__ = ["offset_by_time", "store_time"]


def store_time(log: CommitLog, queue: ConsumeQueue | None, queue_offset: int) -> int:
    """Store time in ms of a queue's message; -1 if there is none."""
    if queue is None or not queue.min_offset <= queue_offset < queue.next_offset:
        return -1
    offset, size, _ = queue.unit(queue_offset)
    return log.store_timestamp(offset, size) if offset >= log.start else -1


def offset_by_time(log: CommitLog, queue: ConsumeQueue | None, timestamp: int) -> int:
    """Queue offset nearest to `timestamp` (ms); 0 for a queue without files."""
    if queue is None or not queue.segments.segments:
        return 0
    segments = queue.segments.segments
    chosen = next((segment for segment in segments if segment.modified_ms >= timestamp), segments[-1])
    first = max(chosen.start // UNIT, queue.min_offset)
    last = min(chosen.end // UNIT, queue.next_offset)
    if first >= last:
        return min(first, queue.next_offset)
    numbers = range(first, last)
    right = first + bisect_left(numbers, timestamp, key=lambda number: store_time(log, queue, number))
    if right == first:
        return first
    if right == last:
        return last - 1
    above = store_time(log, queue, right)
    below = store_time(log, queue, right - 1)
    return right if above == timestamp or above - timestamp < timestamp - below else right - 1
