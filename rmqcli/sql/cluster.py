"""The topics of a running cluster as tables.

A scan reads up to the ends that the queues have when it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Self

import trio

from rmqcli.client import Admin, NoRoute, PullConsumer
from rmqcli.codec.names import is_system_topic
from rmqcli.export import QueueRange, find_ranges
from rmqcli.export.from_topic.batches import BATCH_MESSAGES, first_error, patiently, read_some
from rmqcli.flows.errors import QueueNotPermitted
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.plans.topics import own_topics
from rmqcli.sql.portal import Portal
from rmqcli.sql.stores import Bounds

QUEUES_AT_ONCE = 4
"""The number of queues read at the same time. Each has one batch in memory."""


class ClusterTopics:
    """The topics of a cluster; a context manager. `options` are those of `PullConsumer`.

    Its methods are called from threads without trio. They raise ClientError, and Cancelled after `cancel`.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._portal = Portal(lambda: PullConsumer(**options))

    def __enter__(self) -> Self:
        self._portal.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.__exit__(kind, error, trace)

    @cached_property
    def names(self) -> Sequence[str]:
        """The topics, except those of the system, of brokers and of clusters, sorted."""
        return self._portal.call(_names)

    def has(self, name: str) -> bool:
        return name in self.names or self._portal.call(partial(_has_route, name))

    def scan(self, bounds: Bounds, check: Callable[[], None]) -> Iterator[Any]:
        """Yield record batches with all rows of the topics of `bounds` within it, and possibly others of
        them.

        `check` is called for every batch; its exceptions end the scan.
        """
        waiting = [(wanted, wanted.begin) for wanted in self._portal.call(partial(_ranges, bounds))]
        while waiting:
            check()
            batches, following = self._portal.call(partial(_step, waiting[:QUEUES_AT_ONCE]))
            waiting = following + waiting[QUEUES_AT_ONCE:]
            yield from batches

    def cancel(self) -> None:
        """End all calls in progress."""
        self._portal.cancel()


async def _names(consumer: PullConsumer) -> list[str]:
    admin = Admin(instance=consumer.instance)
    names = await admin.topics.names()
    hidden = own_topics(await admin.brokers.cluster_info())
    return sorted(name for name in names if name not in hidden and not is_system_topic(name))


async def _has_route(name: str, consumer: PullConsumer) -> bool:
    try:
        await consumer.message_queues(name)
    except NoRoute:
        return False
    return True


async def _ranges(bounds: Bounds, consumer: PullConsumer) -> list[QueueRange]:
    wanted = _range(bounds)
    found: list[QueueRange] = []
    for topic in sorted(bounds.topics):
        try:
            ranges, lost = await find_ranges(consumer, [topic], wanted)
        except (NoRoute, QueueNotPermitted):
            if len(bounds.topics) == 1:
                raise
            continue  # among all topics, one that has been deleted since, or that nobody may read
        if lost and lost[0].error is not None:
            raise lost[0].error
        found += [one for one in ranges if one.begin < one.end and bounds.takes_queue(one.queue.queue_id)]
    return found


def _range(bounds: Bounds) -> OffsetRange:
    offsets, times = bounds.queue_offset, bounds.store_timestamp
    return OffsetRange(
        begin=None if offsets.low is None else max(0, offsets.low),
        end=None if offsets.high is None else max(0, offsets.high + 1),
        begin_time=None if times.low is None else max(0, times.low // 1000),
        end_time=None if times.high is None else max(0, times.high // 1000 + 1),
    )


async def _step(
    waiting: Sequence[tuple[QueueRange, int]], consumer: PullConsumer
) -> tuple[list[Any], list[tuple[QueueRange, int]]]:
    """Read one batch of each range. Return the batches, and the ranges that continue."""
    batches: list[Any] = []
    following: list[tuple[QueueRange, int]] = []

    async def read(wanted: QueueRange, offset: int) -> None:
        batch, end = await patiently(partial(read_some, consumer, wanted, offset, BATCH_MESSAGES))
        batches.append(batch)
        if end is not None:
            following.append((wanted, end))

    try:
        async with trio.open_nursery() as nursery:
            for wanted, offset in waiting:
                nursery.start_soon(read, wanted, offset)
    except BaseExceptionGroup as group:
        raise first_error(group) from None
    return batches, following
