"""Offsets of a group on a topic, translated to those of another topic with the same messages.

Each queue of the target gets the offset of the first message that the group has not consumed, so that no
message is skipped; some may be consumed again. Where the queue holds the copies of one queue, their marks
give the exact offset. Elsewhere the store time decides: that of the earliest message that the group has yet
to consume, less a margin, because clocks differ and a producer may have sent to the target first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from rmqcli.client import PullStatus
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.copying.marks import Mark, mark_of
from rmqcli.copying.routes import KEEP
from rmqcli.flows.reading import BATCH, Reader

_PROBE = 8
GUARD = 4096
"""Messages that are read before a found offset.

A late request may have stored copies out of order, and others may have begun to send to the topic.
"""


class Translated(NamedTuple):
    """The offset of one queue of the target: of the copy of `source` at `at`, or by the time `at` (None)."""

    queue: MessageQueue
    offset: int
    at: int
    source: MessageQueue | None = None


async def translated(
    source: Reader,
    target: Reader,
    positions: Mapping[MessageQueue, int],
    topic: str,
    *,
    margin_ms: int,
    behind_ms: int = 0,
) -> list[Translated]:
    """Translate the next offsets of a group to the queues of `topic`.

    `behind_ms`: how far clocks of the target are behind those of the source, if they are. A queue is left out
    if it holds the copies of a queue without an offset of the group, or if the time is unknown.
    """
    found: list[Translated] = []
    time: int | None = None
    for queue in sorted(await target.message_queues(topic)):
        origin = await _origin(source, target, queue, {one.topic for one in positions})
        if origin is not None:
            if origin.queue in positions:
                at = positions[origin.queue]
                offset = await _offset_of_copy(target, queue, origin, at)
                found.append(Translated(queue, offset, at, origin.queue))
            continue
        if time is None:
            time = await _first_time(source, positions)
            if time is None:
                continue
            time -= margin_ms + max(0, behind_ms)
        found.append(Translated(queue, await target.search_offset(queue, time - 1), time))
    return found


async def _first_time(source: Reader, positions: Mapping[MessageQueue, int]) -> int | None:
    """Return the store time of the earliest message to consume, or of the last message of a queue that has
    none.
    """
    times: list[int] = []
    for topic in {queue.topic for queue in positions}:
        for queue in await source.message_queues(topic):
            low, high = await source.min_offset(queue), await source.max_offset(queue)
            if low < high:
                at = min(max(positions.get(queue, low), low), high - 1)
                times += [one.store_timestamp async for one in _from(source, queue, at, at + 1)]
    return min(times, default=None)


async def _from(
    reader: Reader, queue: MessageQueue, offset: int, end: int, count: int = BATCH
) -> AsyncIterator[MessageExt]:
    """Yield the messages of a queue from an offset up to `end`, read `count` at a time."""
    while offset < end:
        result = await reader.pull(queue, offset, min(count, end - offset))
        for message in result.messages:
            if message.queue_offset < end:
                yield message
        if result.next_begin_offset <= offset or result.status is PullStatus.NO_NEW_MSG:
            return
        offset, count = result.next_begin_offset, BATCH


async def _origin(
    source: Reader, target: Reader, queue: MessageQueue, topics: Sequence[str] | set[str]
) -> Mark | None:
    """Return the last mark of a queue if all copies at its ends are of one copy of one queue of the source."""
    low, high = await target.min_offset(queue), await target.max_offset(queue)
    seen: list[tuple[MessageExt, Mark]] = []
    for begin, end in ((low, min(high, low + BATCH)), (max(low, high - BATCH), high)):
        async for message in _from(target, queue, begin, end):
            mark = mark_of(message)
            if mark is not None:
                seen.append((message, mark))
    if not seen:
        return None
    last, origin = seen[-1]
    alike = all(mark[:3] == origin[:3] for _, mark in seen)
    if not alike or origin.how != KEEP or origin.queue.topic not in topics:
        return None
    # Another cluster may have a broker of this name.
    known = {queue for topic in topics for queue in await source.message_queues(topic)}
    if origin.queue not in known:
        return None
    originals = [one async for one in _from(source, origin.queue, origin.offset, origin.offset + 1)]
    return origin if [one.msg_id for one in originals] == [last.msg_id] else None


async def _offset_of_copy(target: Reader, queue: MessageQueue, origin: Mark, at: int) -> int:
    """Return the offset of the first copy of a message at offset `at` or later; the end if there is none.

    Messages near it that are not copies are not consumed yet, either.
    """

    def is_meant(message: MessageExt) -> bool | None:
        mark = mark_of(message)
        return None if mark is None or mark[:3] != origin[:3] else mark.offset >= at

    low, high = await target.min_offset(queue), await target.max_offset(queue)
    begin, end = low, high
    while begin < end:
        middle = (begin + end) // 2
        place, meant = end, True
        async for message in _from(target, queue, middle, end, _PROBE):
            if (one := is_meant(message)) is not None:
                place, meant = message.queue_offset, one
                break
        if meant:
            end = middle
        else:
            begin = place + 1
    while begin > low:
        before = max(low, begin - GUARD)
        messages = [one async for one in _from(target, queue, before, begin)]
        earlier = [one.queue_offset for one in messages if is_meant(one) is not False]
        if not earlier:
            break
        begin = earlier[0]
    return begin
