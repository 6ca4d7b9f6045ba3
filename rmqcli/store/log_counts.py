"""Statistics of a commit log, many records at once where that can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from codec.errors import CorruptionError
from codec.message import MessageExt
from codec.record import decode_record
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.bulk import is_bulk_possible
from rmqcli.store.commit_log import CommitLog, walk_file
from rmqcli.store.distribution import Distribution
from rmqcli.store.files import NamedFile, mapped, naming_damage
from rmqcli.store.log_filter import RecordFilter
from rmqcli.store.log_reader import Found
from rmqcli.store.log_records import log_records
from rmqcli.store.statistics import LogStatistics

__all__ = ["Counted", "LogCounts", "count_chosen", "count_log", "count_records"]


class Counted(NamedTuple):
    """What is counted: commit-log offsets or store times, topics (none: all), a queue number."""

    range: OffsetRange = OffsetRange()
    topics: frozenset[str] = frozenset()
    queue_id: int | None = None


class LogCounts:
    """What was counted."""

    def __init__(self) -> None:
        self.statistics = LogStatistics()
        self.distribution = Distribution()

    def add(self, message: MessageExt) -> None:
        self.statistics.add(message)
        self.distribution.add(message)


def count_records(found: Iterable[Found]) -> LogCounts:
    """One by one."""
    counts = LogCounts()
    for _, message in found:
        counts.add(message)
    return counts


Progress = Callable[[int], None]


def count_chosen(
    log: CommitLog, wanted: OffsetRange, chosen: RecordFilter, limit: int | None, progress: Progress
) -> LogCounts:
    """At most `limit` records; many at once where all that is asked for can be seen without reading them."""
    bounded = limit is not None or wanted.last is not None or wanted.only_new
    if bounded or not chosen.asks_only("topics", "queue_id"):
        return count_records(islice(log_records(log, wanted, chosen, progress), limit))
    return count_log(log, Counted(wanted, chosen.topics, chosen.queue_id), progress)


def count_log(log: CommitLog, wanted: Counted, progress: Progress = lambda size: None) -> LogCounts:
    """DamagedFile at damage. `progress` is told bytes of the log."""
    counts = LogCounts()
    for file in log.files_in(wanted.range):
        with naming_damage(file), mapped(file) as data:
            _count_file(file, data, wanted, counts, progress)
    return counts


def _count_file(
    file: NamedFile, data: memoryview, wanted: Counted, counts: LogCounts, progress: Progress
) -> None:
    position = _count_blocks(file, data, wanted, counts, progress)
    begin, end = wanted.range.begin or 0, wanted.range.end
    for place, _ in walk_file(file, data, position):
        if end is not None and place.offset >= end:
            return
        progress(place.size)
        if place.offset >= begin:
            _count_record(data, place.position, wanted, counts)


def _count_record(data: memoryview, position: int, wanted: Counted, counts: LogCounts) -> None:
    try:
        message = decode_record(data, position, decompress=True)
    except CorruptionError as error:
        raise CorruptionError(str(error), position) from None
    if (
        wanted.range.holds_time(message.store_timestamp)
        and (not wanted.topics or message.topic in wanted.topics)
        and wanted.queue_id in (None, message.queue_id)
    ):
        counts.add(message)


def _count_blocks(
    file: NamedFile, data: memoryview, wanted: Counted, counts: LogCounts, progress: Progress
) -> int:
    """The byte behind the records that could be counted many at once."""
    if not is_bulk_possible():
        return 0
    from rmqcli.store.bulk_statistics import count_blocks

    position = 0
    for end in count_blocks(data, file.base, wanted, counts):
        progress(end - position)
        position = end
    return position
