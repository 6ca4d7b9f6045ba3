"""Topics as a stream.

Spark checkpoints the offsets of each batch and requests the same ones again after a restart, so with an
idempotent sink every message arrives once. Queues and topics that appear while the stream runs are read from
their beginning. `startingOffsets` (default: latest) applies to a new checkpoint only. With `groupId`, the
offsets of the last finished batch are committed to that group, for tools that show lags; the stream never
reads them, and continues if they cannot be committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from math import inf
from time import monotonic
from typing import Any

import trio
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from rmqcli.client import ClientError, PullConsumer
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export.from_topic.batches import QueueRange
from rmqcli.export.from_topic.ranges import mean_sizes
from rmqcli.export.spark_source.batch import QueuePartition, read_partition
from rmqcli.export.spark_source.offsets import (
    LATEST,
    Offsets,
    Position,
    limited,
    queues_from_json,
    queues_to_json,
)
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.spark_source.options import ALL, ReadOptions
from rmqcli.export.spark_source.outages import opened, plainly, reading
from rmqcli.export.spark_source.planning import for_all, lose, planned, queues_of, resolved
from rmqcli.export.spark_source.rows import Columns
from rmqcli.render.output import warn

MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
"""The default of `maxTriggerDelay`, as in Spark's Kafka source."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives on the driver while the stream runs; only `read` runs in executors."""

    def __init__(self, options: ReadOptions, columns: Columns) -> None:
        if options.paths:
            raise OptionError("a stream reads topics; path is for batches")
        if options.end is not None or options.offsets != ALL:
            raise OptionError(
                "a stream has no end: endingOffsets, endingTimestamp and queueOffsets are for batches"
            )
        self.options = options
        self.columns = columns
        self.target: Offsets | None = None
        self.known: Offsets = {}
        self.committed: Offsets = {}
        self.sizes: dict[str, int] = {}
        self.triggered = -inf

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        """Return the offsets where a new checkpoint starts."""

        async def first_offsets(consumer: PullConsumer) -> Offsets:
            queues = await queues_of(consumer, self.options)
            start = self.options.start or Position(LATEST)
            return await resolved(consumer, queues, start, "startingOffsets")

        return self._noted(trio.run(reading, self.options, first_offsets))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of `maxOffsetsPerTrigger`, otherwise that of `minOffsetsPerTrigger`.

        A Python data source has one limit only; `latestOffset` takes a second from the options.
        """
        most, least = self.options.max_offsets, self.options.min_offsets
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    @property
    def _delay_ms(self) -> int:
        chosen = self.options.max_trigger_delay_ms
        return MAX_TRIGGER_DELAY_MS if chosen is None else chosen

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the query at the current ends of the queues."""
        self.target = self._latest(self.known)

    @plainly
    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the latest offsets, for the progress of the query."""
        return queues_to_json(self._latest(self.known))

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch."""
        before = self.known = queues_from_json(start)
        # Spark calls this when the previous batch is finished. Its call of `commit` comes a batch later, and
        # never for the last batch.
        self._commit_to_group(before)
        end = self._end(before)
        end = self._with_absent(before, end)
        if not isinstance(limit, ReadAllAvailable):
            begins = before | self._begins([queue for queue in end if queue not in before])
            if self._is_early(begins, end):
                return start
            if isinstance(limit, ReadMaxRows):
                end = limited(begins, end, limit.max_rows)
        return queues_to_json(end)

    def _is_early(self, begins: Offsets, end: Offsets) -> bool:
        """Return True if the next batch waits for `minOffsetsPerTrigger`. A query with a fixed end never waits."""
        if self.options.min_offsets is None or self.target is not None:
            return False
        waiting = sum(max(0, offset - begins[queue]) for queue, offset in end.items())
        now = monotonic()
        if waiting < self.options.min_offsets and now < self.triggered + self._delay_ms / 1000:
            return True
        self.triggered = now
        return False

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before, after = queues_from_json(start), queues_from_json(end)
        # A new queue counts as past its end, like one that was created again and is shorter now.
        unknown = [queue for queue in after if before.get(queue, after[queue] + 1) > after[queue]]
        begins = before | self._begins(unknown)
        ranges = [QueueRange(queue, begins[queue], after[queue]) for queue in sorted(after)]
        found = [wanted for wanted in ranges if wanted.begin < wanted.end]
        self._size(found)
        return list(map(QueuePartition, planned(found, self.sizes, self.options)))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self.options, self.columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit everything before `end` to the group."""
        self._commit_to_group(queues_from_json(end))

    def _end(self, before: Offsets) -> Offsets:
        if self.target is None:
            return self._latest(before)
        if before.keys() - self.target.keys():  # their brokers were away when the end was fixed
            self.target = self._latest(before) | self.target
        return self.target

    def _commit_to_group(self, offsets: Offsets) -> None:
        if self.options.group is None or offsets == self.committed:
            return
        try:
            trio.run(self._commit, offsets)
            self.committed = offsets
        except ClientError as error:
            warn(f"the offsets of group {self.options.group} were not committed: {error}")

    async def _commit(self, offsets: Offsets) -> None:
        async with opened(self.options) as consumer:
            for queue, offset in offsets.items():
                await consumer.commit(queue, offset)

    def _latest(self, known: Offsets) -> Offsets:
        """Return the ends of all queues. `known` queues must have registered brokers, or be gone."""

        async def ends(consumer: PullConsumer) -> Offsets:
            return await for_all(await queues_of(consumer, self.options, known), consumer.max_offset)

        return trio.run(reading, self.options, ends, _brokers(known))

    def _begins(self, queues: list[MessageQueue]) -> Offsets:
        """Return the first offsets of queues that are not in the checkpoint, or that were created again."""
        if not queues:
            return {}

        async def begins(consumer: PullConsumer) -> Offsets:
            async def first(queue: MessageQueue) -> int:
                return max(0, await consumer.min_offset(queue))

            return await for_all(queues, first)

        return trio.run(reading, self.options, begins, _brokers(queues))

    def _size(self, ranges: list[QueueRange]) -> None:
        """Request the message sizes of new topics. Those of a topic hardly change."""
        unknown = [wanted for wanted in ranges if wanted.queue.topic not in self.sizes]
        if unknown:
            brokers = _brokers(wanted.queue for wanted in unknown)
            self.sizes |= trio.run(reading, self.options, partial(mean_sizes, ranges=unknown), brokers)

    def _noted(self, offsets: Offsets) -> dict[str, Any]:
        self.known = offsets
        return queues_to_json(offsets)

    def _with_absent(self, before: Offsets, end: Offsets) -> Offsets:
        """Add missing queues with their old offsets. Queues that became shorter start again."""
        for queue, offset in sorted(before.items()):
            if queue not in end:
                lose(f"{queue} no longer exists; it was read up to offset {offset}", self.options)
            elif end[queue] < offset:
                lose(f"{queue} was read up to offset {offset}, but ends at {end[queue]}", self.options)
        return {**before, **end}


def _brokers(queues: Iterable[MessageQueue]) -> set[str]:
    return {queue.broker_name for queue in queues}
