"""The ranges of the queues of topics. A broker that does not respond does not delay the queues of others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import trio

from rmqcli.client import ClientError, PullConsumer
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export.from_topic.batches import QueueEnd, QueueRange, first_error, patiently
from rmqcli.export.output.manifest import LastRow, Manifest, QueueKey
from rmqcli.export.packing import packed
from rmqcli.export.recreated_topics import explained, is_another
from rmqcli.flows.reading import Chooser, Reader, Span, choose_queues, open_range, spans
from rmqcli.grammar.offset_range import OffsetRange


async def find_ranges(
    reader: Chooser, topics: Sequence[str], wanted: OffsetRange
) -> tuple[list[QueueRange], list[QueueEnd]]:
    """Return ranges, and the queues with unknown offsets. Raises the first error if these are all queues."""
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
    # Within except*, Python 3.11.2 would put it into another group.
    raise first_error(errors)


async def _last(reader: Reader, found: Sequence[Span], wanted: OffsetRange) -> list[QueueRange]:
    ranges = [QueueRange(*span, wanted.begin_time, wanted.end_time) for span in found]
    if wanted.last is None or len(found) == 1:
        return ranges
    # The last N of all queues together, as `rmq pull` reads them: only the messages show which.
    starts: dict[MessageQueue, int] = {}
    async with open_range(reader, found, wanted) as messages:
        async for message in messages:
            queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
            starts.setdefault(queue, message.queue_offset)
    return [one._replace(begin=starts.get(one.queue, one.end)) for one in ranges]


# Ranges of queues as tasks, by the sizes that their messages are estimated to have.
#
# Offsets give the number of messages in a range; the first messages of the longest range of each topic give
# their size.

AT_ONCE = 16
"""The number of topics that are queried at the same time."""
SAMPLE = 32
DEFAULT_BYTES = 1024
"""The assumed size of a message of a topic for which no message could be read."""
QUEUE_BYTES = 64 * 1024
"""The cost of the requests for a queue, as the bytes that are read in the same time."""


async def mean_sizes(consumer: PullConsumer, ranges: Sequence[QueueRange]) -> dict[str, int]:
    """Return the mean stored size of messages by topic, from one pull each, as far as brokers respond."""
    longest = {wanted.queue.topic: wanted for wanted in sorted(ranges, key=len_of)}
    found: dict[str, int] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def ask(wanted: QueueRange) -> None:
        # Only the sizes of tasks depend on this; a broker that is away is reported by the read.
        with suppress(ClientError):
            async with limit:
                most = min(SAMPLE, len_of(wanted))
                messages = (await consumer.pull(wanted.queue, wanted.begin, most)).messages
            if messages:
                found[wanted.queue.topic] = sum(one.store_size for one in messages) // len(messages)

    async with trio.open_nursery() as nursery:
        for wanted in longest.values():
            nursery.start_soon(ask, wanted)
    return found


def len_of(wanted: QueueRange) -> int:
    """Return the number of messages in a range."""
    return wanted.end - wanted.begin


def bytes_of(wanted: QueueRange, sizes: Mapping[str, int]) -> int:
    return len_of(wanted) * sizes.get(wanted.queue.topic, DEFAULT_BYTES) + QUEUE_BYTES


def in_tasks(
    ranges: Collection[QueueRange], sizes: Mapping[str, int], size: int, at_least: int = 1
) -> list[list[QueueRange]]:
    """Return tasks of about `size` bytes, and at least `at_least` tasks if there are enough messages.

    A task covers either a part of one range or several whole ranges.
    """

    def cut(wanted: QueueRange, count: int) -> list[QueueRange]:
        return wanted.cut(min(count, len_of(wanted)))

    tasks = packed(ranges, lambda wanted: bytes_of(wanted, sizes), cut, size)
    if len(tasks) >= at_least:
        return tasks
    return packed(ranges, len_of, cut, max(1, sum(map(len_of, ranges)) // at_least))


# The queues of a cluster whose topics were deleted and created again since an export: see
# `rmqcli.export.recreated_topics`.


class AnotherLife(ClientError):
    """A topic was deleted and created again since it was exported."""


class Lives(NamedTuple):
    """The ranges of queues that an export can continue, and the ends of the queues of recreated topics."""

    same: list[QueueRange]
    others: list[QueueEnd]


def lasts_of(previous: Manifest | None) -> Mapping[QueueKey, LastRow]:
    return {last.key: last for last in previous.last} if previous else {}


async def lives(client: Any, ranges: Sequence[QueueRange], previous: Manifest | None) -> Lives:
    """Compare the last exported record of each queue with the stored one.

    Errors are left to the later read of the queue.
    """
    known = lasts_of(previous)
    found = Lives([], [])
    for wanted in ranges:
        last = known.get((wanted.queue.topic, wanted.queue.broker_name, wanted.queue.queue_id))
        if last is not None and await _is_another(client, wanted, last):
            error = AnotherLife(explained(wanted.queue, last))
            found.others.append(QueueEnd(wanted, last.queue_offset + 1, error))
        else:
            found.same.append(wanted)
    return found


async def lives_for(
    client_options: Mapping[str, Any], ranges: Sequence[QueueRange], previous: Manifest | None
) -> Lives:
    if not lasts_of(previous):
        return Lives(list(ranges), [])
    async with PullConsumer(**client_options) as consumer:
        return await lives(consumer, ranges, previous)


async def _is_another(client: Any, wanted: QueueRange, last: LastRow) -> bool:
    offset = min(last.queue_offset, wanted.end - 1)
    if offset < 0:
        # Retention does not change the end of a queue, so one that is empty from 0 on has begun again.
        return wanted.end_time is None
    try:
        result = await patiently(partial(client.pull, wanted.queue, offset, 1))
    except ClientError:
        return False
    there = next(iter(result.messages), None)
    if there is None or there.queue_offset > last.queue_offset:
        return False  # retention has removed the record to compare with
    return is_another(last, there.queue_offset, there.commit_log_offset)
