"""The ranges of the queues of topics; a broker that does not respond does not hold up the queues of others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from codec.message_queue import MessageQueue
from rmqcli.client import ClientError
from rmqcli.export.from_topic.batches import QueueRange
from rmqcli.export.from_topic.retrying import QueueEnd, first_error, patiently
from rmqcli.flows.reading import Chooser, Reader, Span, choose_queues, open_range, spans
from rmqcli.grammar.offset_range import OffsetRange


async def find_ranges(
    reader: Chooser, topics: Sequence[str], wanted: OffsetRange
) -> tuple[list[QueueRange], list[QueueEnd]]:
    """Return ranges, and queues with unknown offsets. Raises the first error when that is all of them."""
    queues = [queue for topic in topics for queue in await choose_queues(reader, topic)]
    found: dict[MessageQueue, Span | ClientError] = {}

    async def find(queue: MessageQueue) -> None:
        try:
            (found[queue],) = await patiently(partial(_span, reader, queue, wanted))
        except ClientError as error:
            found[queue] = error

    async with trio.open_nursery() as nursery:
        for queue in queues:
            nursery.start_soon(find, queue)
    there = [span for queue in queues if isinstance(span := found[queue], Span)]
    lost = [
        QueueEnd(QueueRange(queue, 0, 0), 0, error)
        for queue in queues
        if isinstance(error := found[queue], ClientError)
    ]
    if lost and not there and lost[0].error is not None:
        raise lost[0].error
    return await _last(reader, there, wanted), lost


async def _span(reader: Reader, queue: MessageQueue, wanted: OffsetRange) -> list[Span]:
    try:
        return await spans(reader, [queue], wanted)
    except* ClientError as group:
        errors = group
    raise first_error(errors)


async def _last(reader: Reader, found: Sequence[Span], wanted: OffsetRange) -> list[QueueRange]:
    ranges = [QueueRange(*span, wanted.begin_time, wanted.end_time) for span in found]
    if wanted.last is None or len(found) == 1:
        return ranges
    # The last N of all queues together, as `rmq pull` reads them: only the messages show which these are.
    starts: dict[MessageQueue, int] = {}
    async with open_range(reader, found, wanted) as messages:
        async for message in messages:
            queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
            starts.setdefault(queue, message.queue_offset)
    return [one._replace(begin=starts.get(one.queue, one.end)) for one in ranges]
