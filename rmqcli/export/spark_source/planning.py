"""The queues and offsets of a read, requested from the cluster before anything is read, and its tasks.

An offset for a time is that of the first message stored at that time or later. The broker's own search may be
off by one message.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import trio

from rmqcli.client import Admin, NoRoute, PullConsumer, PullStatus
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import is_system_topic
from rmqcli.counts import messages_at
from rmqcli.export.errors import ExportError
from rmqcli.export.from_topic.batches import BATCH_BYTES, BATCH_MESSAGES, QueueRange, first_error, to_batch
from rmqcli.export.from_topic.ranges import bytes_of, in_tasks
from rmqcli.export.packing import task_bytes
from rmqcli.export.spark_source.offsets import EARLIEST, LATEST, Offsets, Position
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.spark_source.options import ReadOptions
from rmqcli.export.spark_source.outages import BrokerAway, reading
from rmqcli.machine import processes
from rmqcli.render.output import warn

AT_ONCE = 16
"""The number of queues whose offsets are requested at the same time."""


async def queues_of(
    consumer: PullConsumer, options: ReadOptions, known: Collection[MessageQueue] = ()
) -> list[MessageQueue]:
    """Return the queues that the options name.

    Raises OptionError if an assigned queue is missing, BrokerAway if the broker of a `known` queue is not
    registered. A topic of known queues may be gone.
    """
    found: list[MessageQueue] = []
    topics = {queue.topic for queue in known}
    # A broker registers all its topics at once, so a queue missing from a later route is gone.
    registered = await _registered(consumer) if known else frozenset()
    for topic in await _topics(consumer, options):
        try:
            queues = await consumer.message_queues(topic)
        except NoRoute:
            if topic not in topics:
                raise
            queues = []
        found += _assigned(queues, topic, options) if options.assigned else queues
    if options.queue_id is not None:
        found = [queue for queue in found if queue.queue_id == options.queue_id]
        if not found and not known:
            raise OptionError(f"queueId: no queue that is read has the number {options.queue_id}")
    if away := {queue.broker_name for queue in set(known) - set(found)} - registered:
        raise BrokerAway(away)
    return sorted(found)


async def _registered(consumer: PullConsumer) -> frozenset[str]:
    return frozenset((await Admin(instance=consumer.instance).brokers.cluster_info()).broker_addr_table)


async def _topics(consumer: PullConsumer, options: ReadOptions) -> list[str]:
    if options.pattern is None:
        return list(options.topics or options.assigned)
    names = await Admin(instance=consumer.instance).topics.names()
    # Retry and dead-letter topics match only patterns that start with %.
    wanted = [
        name
        for name in names
        if re.fullmatch(options.pattern, name)
        and not is_system_topic(name)
        and (not name.startswith("%") or options.pattern.startswith("%"))
    ]
    return [name for name in wanted if await _has_queues(consumer, name)]


async def _has_queues(consumer: PullConsumer, topic: str) -> bool:
    """Return False for names that no broker serves, such as those of clusters."""
    try:
        return bool(await consumer.message_queues(topic))
    except NoRoute:
        return False


def _assigned(queues: Iterable[MessageQueue], topic: str, options: ReadOptions) -> list[MessageQueue]:
    found: list[MessageQueue] = []
    for broker, numbers in options.assigned[topic].items():
        for number in numbers:
            taken = [
                queue for queue in queues if queue.queue_id == number and broker in (None, queue.broker_name)
            ]
            if not taken:
                raise OptionError(f"assign: topic {topic} has no queue {number} on {broker or 'any broker'}")
            found += taken
    return found


async def for_all(queues: Iterable[MessageQueue], ask: Callable[[MessageQueue], Awaitable[int]]) -> Offsets:
    """Request a value for each queue, several at a time."""
    found: Offsets = {}
    rest = iter(queues)

    # With a task per queue, 80,000 queues took 280 MiB; so they take 4.
    async def some() -> None:
        for queue in rest:
            found[queue] = await ask(queue)

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(some)
    except ExceptionGroup as group:
        raise first_error(group) from None
    return found


async def resolved(
    consumer: PullConsumer, queues: list[MessageQueue], position: Position, name: str
) -> Offsets:
    """Return the offsets of a position.

    Raises OptionError, with the `name` of the option, for queues other than these.
    """
    named = position.offsets or position.times
    wrong = sorted(set(queues) ^ named.keys()) if named else []
    if wrong:
        fault = "is not read" if wrong[0] in named else "is also read, but has none"
        raise OptionError(f"{name} needs an offset for each queue that is read: {wrong[0]} {fault}")
    return await for_all(queues, partial(_resolve, consumer, position))


async def _resolve(consumer: PullConsumer, position: Position, queue: MessageQueue) -> int:
    time = position.time if position.time is not None else position.times.get(queue)
    if time is not None:
        return await offset_at(consumer, queue, time)
    offset = position.offsets.get(queue, position.everywhere)
    ask = {EARLIEST: consumer.min_offset, LATEST: consumer.max_offset}.get(offset)
    return max(0, await ask(queue)) if ask else offset


async def offset_at(consumer: PullConsumer, queue: MessageQueue, time: int) -> int:
    """Return the offset of the first message stored at `time` (ms) or later, or the end of the queue."""
    # A search may return any message of its millisecond, or the neighbour of a gap. So it is given a
    # millisecond less, and the messages from there on decide.
    offset = await consumer.search_offset(queue, max(0, time - 1))
    while True:
        result = await consumer.pull(queue, offset)
        for message in result.messages:
            if message.store_timestamp >= time:
                return message.queue_offset
        if result.next_begin_offset <= offset:
            return offset
        offset = result.next_begin_offset


def planned(
    ranges: list[QueueRange], sizes: Mapping[str, int], options: ReadOptions
) -> list[list[QueueRange]]:
    """Return the ranges of each task."""
    size = wanted_bytes(sum(bytes_of(wanted, sizes) for wanted in ranges), options)
    return in_tasks(ranges, sizes, size, options.min_partitions or 1)


def wanted_bytes(total: int, options: ReadOptions) -> int:
    """Return the size of tasks: by `minPartitions`, or one per core; at most `maxPartitionBytes`."""
    if options.min_partitions is None:
        return task_bytes(total, options.max_partition_bytes, processes())
    return max(1, min(options.max_partition_bytes, total // options.min_partitions))


# Queue ranges as record batches, and the treatment of missing messages.
#
# Every offset of a queue has a message. Messages that a pull leaves out, unless by a selector, are lost:
# deleted by retention, or with a topic that was deleted and created again.


class DataLoss(ExportError):
    """Messages to read are missing, and `failOnDataLoss` is true (the default)."""


def lose(text: str, options: ReadOptions) -> None:
    """Raise DataLoss, or warn on standard error if `failOnDataLoss` is false."""
    if options.fail_on_data_loss:
        raise DataLoss(f"{text}; set failOnDataLoss=false to continue without them")
    warn(text)


def read_ranges(wanted: Sequence[QueueRange], options: ReadOptions) -> Iterator[Any]:
    """Yield record batches of the export schema, range after range.

    Runs in the caller's thread. Raises ClientError and Outage.
    """

    async def step(rest: Sequence[QueueRange]) -> _Gathered:
        brokers = {item.queue.broker_name for item in rest}
        return await reading(options, lambda consumer: _pull_batch(consumer, rest, options), brokers)

    rest = [item for item in wanted if item.begin < item.end]
    while rest:
        # Each batch has its own connection, which costs little: Spark may pause between batches.
        messages, rest = trio.run(step, rest)
        if messages:
            yield to_batch(messages)


class _Gathered(NamedTuple):
    messages: list[MessageExt]
    rest: list[QueueRange]


async def _pull_batch(
    consumer: PullConsumer, wanted: Sequence[QueueRange], options: ReadOptions
) -> _Gathered:
    """Pull messages of one range after another until they fill a batch.

    Return them with the remaining ranges.
    """
    gathered: list[MessageExt] = []
    size = 0
    rest = list(wanted)
    while rest and len(gathered) < BATCH_MESSAGES and size < BATCH_BYTES:
        pulled = await pull_some(consumer, rest[0], rest[0].begin, options)
        gathered += pulled.messages
        size += sum(len(message.body) for message in pulled.messages)
        rest[0] = rest[0]._replace(begin=pulled.next)
        if pulled.next >= rest[0].end:
            del rest[0]
    return _Gathered(gathered, rest)


class _Pulled(NamedTuple):
    messages: list[MessageExt]
    next: int


async def pull_some(consumer: PullConsumer, wanted: QueueRange, offset: int, options: ReadOptions) -> _Pulled:
    """Pull messages from `offset` on, up to BATCH_MESSAGES or BATCH_BYTES.

    Return them with the next offset.
    """
    gathered: list[MessageExt] = []
    size = 0
    while offset < wanted.end and len(gathered) < BATCH_MESSAGES and size < BATCH_BYTES:
        most = min(options.pull_batch, wanted.end - offset)
        result = await consumer.pull(
            wanted.queue, offset, most, options.selector, expression_type=options.selector_type
        )
        following = result.next_begin_offset
        if result.status is PullStatus.NO_NEW_MSG or following <= offset:
            lose(
                f"{wanted.queue}: the queue is shorter now, without {messages_at(offset, wanted.end)}",
                options,
            )
            return _Pulled(gathered, wanted.end)
        taken = [message for message in result.messages if offset <= message.queue_offset < wanted.end]
        _check(wanted, offset, min(following, wanted.end), result.status, taken, options)
        gathered += taken
        size += sum(len(message.body) for message in taken)
        offset = following
    return _Pulled(gathered, offset)


def _check(
    wanted: QueueRange,
    offset: int,
    following: int,
    status: PullStatus,
    taken: list[MessageExt],
    options: ReadOptions,
) -> None:
    is_selected = options.selector.strip() not in ("", "*") and status is not PullStatus.OFFSET_ILLEGAL
    missing = 0 if is_selected else following - offset - len(taken)
    if missing:
        lose(
            f"{wanted.queue}: of {messages_at(offset, following)}, {missing} no longer "
            f"exist{'s' if missing == 1 else ''}",
            options,
        )
