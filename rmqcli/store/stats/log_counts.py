"""Counts of the records of a commit log, with NumPy as far as columns tell."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from rmqcli.codec.records.filter import RecordFilter
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import (
    CommitLogFiles,
    Found,
    OnDamage,
    ignore_damage,
    plain_bodies,
    stored_message,
    walk_file,
    with_plain_body,
)
from rmqcli.store.read.files import NamedFile, mapped, naming_damage
from rmqcli.store.read.log_records import Progress, log_records
from rmqcli.store.read.vectorised import is_vectorised
from rmqcli.store.stats.counts import Counting, LogCounts


def count_records(found: Iterable[Found]) -> LogCounts:
    counts = LogCounts()
    for _, message in found:
        counts.add(message)
    return counts


def count_chosen(
    log: CommitLogFiles,
    wanted: OffsetRange,
    chosen: RecordFilter,
    limit: int | None,
    progress: Progress,
    on_damage: OnDamage = ignore_damage,
) -> LogCounts:
    """Count at most `limit` records, with NumPy if no record has to be decoded. Raises DamagedFile.

    `progress` receives bytes of the log.
    """
    bounded = limit is not None or wanted.last is not None or wanted.only_new
    if bounded or not chosen.asks_only("topics", "queue_id"):
        found = islice(log_records(log, wanted, chosen, progress), limit)
        return count_records(plain_bodies(found, on_damage))
    counting = Counting(wanted, chosen, LogCounts(), on_damage)
    for file in log.files_in(wanted):
        with naming_damage(file), mapped(file) as data:
            _count_file(file, data, counting, progress)
    return counting.counts


def _count_file(file: NamedFile, data: memoryview, counting: Counting, progress: Progress) -> None:
    position = _count_blocks(file, data, counting, progress)
    begin, end = counting.wanted.begin or 0, counting.wanted.end
    for place, _ in walk_file(file, data, position):
        if end is not None and place.offset >= end:
            return
        progress(place.size)
        if place.offset >= begin:
            _count_record(file, data, place.position, counting)


def _count_record(file: NamedFile, data: memoryview, position: int, counting: Counting) -> None:
    message = stored_message(data, position)
    if counting.wanted.holds_time(message.store_timestamp) and counting.chosen.accepts(message):
        counting.counts.add(with_plain_body(message, file, position, counting.on_damage))


def _count_blocks(file: NamedFile, data: memoryview, counting: Counting, progress: Progress) -> int:
    """Return the byte after the records that were counted in blocks."""
    if not is_vectorised():
        return 0
    from rmqcli.store.stats.block_counts import count_blocks

    position = 0
    for end in count_blocks(file, data, counting):
        progress(end - position)
        position = end
    return position
