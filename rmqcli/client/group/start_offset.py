"""Where a group without an offset begins with a queue (Java `computePullFromWhereWithException`)."""

from __future__ import annotations

from codec.bodies.heartbeat import ConsumeFromWhere
from codec.message import RETRY_PREFIX
from codec.message_queue import MessageQueue
from rmqcli.client.group.offsets import OffsetCalls

__all__ = ["begin_time", "first_offset"]

HALF_AN_HOUR = 30 * 60 * 1000


def begin_time(given: int | None, started_ms: int) -> int:
    """Epoch ms; None is half an hour before the consumer was started."""
    return started_ms - HALF_AN_HOUR if given is None else given


async def first_offset(
    calls: OffsetCalls, queue: MessageQueue, where: ConsumeFromWhere, timestamp_ms: int
) -> int:
    """ClientError when the broker cannot say. Of a retry topic a LAST group misses nothing, one from a time takes what comes."""
    retry = queue.topic.startswith(RETRY_PREFIX)
    if where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
        return 0
    if where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP and not retry:
        return await calls.search_offset(queue, timestamp_ms)
    if where is not ConsumeFromWhere.CONSUME_FROM_TIMESTAMP and retry:
        return 0
    return await calls.max_offset(queue)
