"""Batch reads of a range that is fixed when Spark plans: topics by pull, store folders from their files.

A partition contains ranges of queues, or parts of commit-log files, and about as many bytes as the others:
large ones are cut, small ones are combined. There is no state: the same plan read twice yields the same rows
while the messages exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import trio
from pyspark.sql.datasource import DataSourceReader, InputPartition

from rmqcli.client import PullConsumer
from rmqcli.codec.selector import parse_tags
from rmqcli.export.errors import ExportError, SourceError
from rmqcli.export.from_store.by_queues import queue_places, scan
from rmqcli.export.from_store.packing import PlacedPart, in_tasks, sized
from rmqcli.export.from_store.parts import parts_of, scan_part
from rmqcli.export.from_store.queue_check import StoreQueues, UnsoundQueue, has_topic
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_store.sources import store_sources
from rmqcli.export.from_topic.batches import QueueRange
from rmqcli.export.from_topic.ranges import mean_sizes
from rmqcli.export.spark_source.offsets import EARLIEST, LATEST, Position
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.spark_source.options import ReadOptions
from rmqcli.export.spark_source.outages import plainly, reading
from rmqcli.export.spark_source.planning import (
    lose,
    planned,
    queues_of,
    read_ranges,
    resolved,
    wanted_bytes,
)
from rmqcli.export.spark_source.rows import Columns
from rmqcli.grammar.values import GrammarError, local_path


@dataclass(frozen=True)
class QueuePartition(InputPartition):
    """Ranges of queues, read one after another."""

    wanted: list[QueueRange]


@dataclass(frozen=True)
class StorePartition(InputPartition):
    """Parts of the commit log of a broker, each with the record offsets of its topics if queues know them."""

    parts: list[PlacedPart]
    broker_name: str | None


class BatchReader(DataSourceReader):
    """Reads all rows of the range, and leaves filters to Spark.

    Spark 4.1 to 4.3 keep what `pushFilters` returned with the loaded data frame: another plan that uses the
    frame, even one without filters, would get only the rows of those filters.
    """

    def __init__(self, options: ReadOptions, columns: Columns) -> None:
        self.options = options
        self.columns = columns
        _check_batch(options)

    @plainly
    def partitions(self) -> list[InputPartition]:
        """Return the nonempty partitions, of about the same size."""
        if self.options.paths:
            return self._of_stores()
        ranges, sizes = trio.run(reading, self.options, self._sized_ranges)
        return list(map(QueuePartition, planned(ranges, sizes, self.options)))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self.options, self.columns)

    def _of_stores(self) -> list[InputPartition]:
        try:
            sources = store_sources(list(map(local_path, self.options.paths)), self.options.broker_names)
        except (GrammarError, SourceError) as error:
            raise OptionError(str(error)) from None
        for topic in self.options.topics:
            if not any(has_topic(source.path, topic) for source in sources):
                raise OptionError(f"subscribe: {', '.join(self.options.paths)} has no topic {topic}")
        rows = stored_rows(self.options)
        topics = self.options.topics
        having = [one for one in sources if not topics or any(has_topic(one.path, name) for name in topics)]
        parts = [(source, self._parts(source.path, rows)) for source in having]
        size = wanted_bytes(sum(cost for _, own in parts for _, cost in own), self.options)
        return [
            StorePartition(task, source.broker_name) for source, own in parts for task in in_tasks(own, size)
        ]

    def _parts(self, store: Path, rows: RowFilter) -> list[tuple[PlacedPart, int]]:
        parts = parts_of(store, rows)
        # Only with a choice of topics can a part that is cut anywhere be read by queues.
        places = queue_places(StoreQueues(store, rows)) if rows.topics and parts else None
        return sized(parts, places)

    async def _sized_ranges(self, consumer: PullConsumer) -> tuple[list[QueueRange], dict[str, int]]:
        ranges = await self._ranges(consumer)
        return ranges, await mean_sizes(consumer, ranges)

    async def _ranges(self, consumer: PullConsumer) -> list[QueueRange]:
        queues = await queues_of(consumer, self.options)
        start = self.options.start or Position(EARLIEST)
        end = self.options.end or Position(LATEST)
        begins = await resolved(consumer, queues, start, "startingOffsets")
        ends = await resolved(consumer, queues, end, "endingOffsets")
        for queue in sorted(start.offsets) if end.time is None and not end.times else ():
            if begins[queue] > ends[queue]:
                lose(f"{queue} starts at {begins[queue]}, but ends at {ends[queue]}", self.options)
        wanted = self.options.offsets
        ranges = [QueueRange(queue, *wanted.offsets(begins[queue], ends[queue])) for queue in queues]
        return [item for item in ranges if item.begin < item.end]


def _check_batch(options: ReadOptions) -> None:
    """Refuse limits of triggers, which a batch does not have, and ranges that are always empty."""
    for name, given in (
        ("maxOffsetsPerTrigger", options.max_offsets),
        ("minOffsetsPerTrigger", options.min_offsets),
    ):
        if given is not None:
            raise OptionError(f"a batch has no triggers: {name} is for streams")
    if options.start == Position(LATEST) or options.end == Position(EARLIEST):
        raise OptionError("a batch starts at earliest and ends at latest, or at offsets or times")


@plainly
def read_partition(partition: InputPartition, options: ReadOptions, columns: Columns) -> Iterator[Any]:
    for batch in _batches(partition, options):
        found = columns.of(batch)
        if found.num_rows:
            yield found


def _batches(partition: InputPartition, options: ReadOptions) -> Iterator[Any]:
    if isinstance(partition, QueuePartition):
        yield from read_ranges(partition.wanted, options)
    elif isinstance(partition, StorePartition):
        rows = replace(stored_rows(options), broker_name=partition.broker_name)
        for placed in partition.parts:
            yield from _scanned(placed, rows)
    # For an empty list, Spark makes one partition with the value None, which is neither.


def _scanned(placed: PlacedPart, rows: RowFilter) -> Iterator[Any]:
    try:
        yield from scan(placed.part, rows, placed.places)
    except UnsoundQueue as error:
        # Spark has rows already, so they cannot be read again; but a damaged record is reported as such.
        for _ in scan_part(placed.part, rows):
            pass
        remedy = "without subscribe they are not used: filter on the column topic"
        raise ExportError(f"{error}; {remedy}") from error


def stored_rows(options: ReadOptions) -> RowFilter:
    """Convert options to the row filter of a store."""
    return RowFilter(
        topics=frozenset(options.topics),
        queue_id=options.queue_id,
        tags=parse_tags(options.selector),
        begin=options.offsets.begin,
        end=options.offsets.end,
        begin_time=_time(options.start),
        end_time=_time(options.end),
        only_queued=True,
    )


def _time(position: Position | None) -> int | None:
    return None if position is None else position.time
