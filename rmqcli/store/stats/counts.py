"""Statistics of topics and consume queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np

from rmqcli.codec.compression import COMPRESSED
from rmqcli.codec.message import MessageExt
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.property_names import PropertyName, split_keys
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.codec.scan import FixedColumns
from rmqcli.codec.scan.columns import Array
from rmqcli.codec.scan.properties import cut, join_properties
from rmqcli.codec.scan.walk import RecordBlock, in_range, sound_blocks
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
from rmqcli.store.read.consume_queue import QueueEntry
from rmqcli.store.read.files import NamedFile, mapped, naming_damage
from rmqcli.store.read.log_records import Progress, log_records
from rmqcli.store.read.vectorised import block_records, is_vectorised
from rmqcli.store.stats.distribution import Distribution


@dataclass(slots=True)
class TopicStatistics:
    """Statistics of one topic of a commit log: sizes of whole records in bytes, store times in ms."""

    topic: str
    messages: int = 0
    size: int = 0
    body_size: int = 0
    queues: set[int] = field(default_factory=set)
    first_store_timestamp: int = 0
    last_store_timestamp: int = 0

    def add(self, message: MessageExt) -> None:
        time = message.store_timestamp
        self.add_many(1, message.store_size, len(message.body), (message.queue_id,), (time, time))

    def add_many(
        self, messages: int, size: int, body_size: int, queues: Iterable[int], times: tuple[int, int]
    ) -> None:
        """Add several messages; `times` are the first and the last store time."""
        self.messages += messages
        self.size += size
        self.body_size += body_size
        self.queues.update(queues)
        if not self.first_store_timestamp or times[0] < self.first_store_timestamp:
            self.first_store_timestamp = times[0]
        self.last_store_timestamp = max(self.last_store_timestamp, times[1])


class LogStatistics:
    def __init__(self) -> None:
        self._topics: dict[str, TopicStatistics] = {}

    def topic(self, name: str) -> TopicStatistics:
        if name not in self._topics:
            self._topics[name] = TopicStatistics(name)
        return self._topics[name]

    def add(self, message: MessageExt) -> None:
        self.topic(message.topic).add(message)

    @property
    def topics(self) -> list[TopicStatistics]:
        return [self._topics[name] for name in sorted(self._topics)]


@dataclass(slots=True)
class QueueStatistics:
    """Statistics of a consume queue; `size` is the total size in bytes of the records it points to."""

    entries: int = 0
    first: int = 0
    last: int = -1
    size: int = 0
    first_commit_log_offset: int = 0
    last_commit_log_offset: int = 0
    tags_codes: Counter[int] = field(default_factory=Counter)

    def add(self, entry: QueueEntry) -> None:
        if not self.entries:
            self.first, self.first_commit_log_offset = entry.queue_offset, entry.commit_log_offset
        self.entries += 1
        self.last, self.last_commit_log_offset = entry.queue_offset, entry.commit_log_offset
        self.size += entry.size
        self.tags_codes[entry.tags_code] += 1


class LogCounts:
    def __init__(self) -> None:
        self.statistics = LogStatistics()
        self.distribution = Distribution()

    def add(self, message: MessageExt) -> None:
        self.statistics.add(message)
        self.distribution.add(message)


class Counting(NamedTuple):
    """The parameters and result of a count; `on_damage` receives bodies whose size is counted as stored."""

    wanted: OffsetRange
    chosen: RecordFilter
    counts: LogCounts
    on_damage: OnDamage


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

    position = 0
    for end in count_blocks(file, data, counting):
        progress(end - position)
        position = end
    return position


_SECOND = 1000
_TRACE = SystemTopic.TRACE.encode()


def count_blocks(file: NamedFile, data: memoryview, counting: Counting) -> Iterator[int]:
    """Count a file block by block; yield the byte after each, up to the first unusual record."""
    for block in sound_blocks(data, file.base, counting.wanted.end, block_records()):
        _add(file, block, counting)
        yield block.end


def _add(file: NamedFile, block: RecordBlock, counting: Counting) -> None:
    data, rows, positions, _ = block
    wanted, accepted, counts, on_damage = counting
    topics = list(cut(data, rows["topic_start"], rows["topic_end"]))
    names: dict[bytes, int] = {}
    codes = np.fromiter((names.setdefault(topic, len(names)) for topic in topics), np.int64, len(topics))
    chosen = np.flatnonzero(_mask(rows, codes, names, wanted, accepted))
    if not len(chosen):
        return
    bodies = rows["body_end"] - rows["body_start"]
    for row in chosen[rows["sys_flag"][chosen] & COMPRESSED != 0].tolist():
        place = int(positions[row])
        bodies[row] = len(with_plain_body(stored_message(data, place), file, place, on_damage).body)
    keys = _keys(data, rows, chosen[codes[chosen] != names.get(_TRACE, -1)])
    # Sorted by topic, the rows of a topic are adjacent, and each topic is one slice.
    order = chosen[np.argsort(codes[chosen], kind="stable")]
    known = list(names)
    for mine in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        times = rows["store_timestamp"][mine]
        counts.statistics.topic(str(known[codes[mine[0]]], "utf-8", "replace")).add_many(
            messages=len(mine),
            size=int(rows["total_size"][mine].sum(dtype=np.int64)),
            body_size=int(bodies[mine].sum(dtype=np.int64)),
            queues=np.unique(rows["queue_id"][mine]).tolist(),
            times=(int(times.min()), int(times.max())),
        )
    counts.distribution.add_many(
        # The exponent that frexp returns is the bit length of a size.
        sizes=_counted(np.frexp(rows["total_size"][chosen].astype(np.float64))[1]),
        seconds=_counted(rows["store_timestamp"][chosen] // _SECOND),
        keys=keys,
    )


def _mask(
    rows: FixedColumns, codes: Array, names: dict[bytes, int], wanted: OffsetRange, accepted: RecordFilter
) -> Array:
    mask = in_range(rows, *wanted.bounds)
    if accepted.queue_id is not None:
        mask &= rows["queue_id"] == accepted.queue_id
    if accepted.topics:
        mine = [code for topic, code in names.items() if str(topic, "utf-8", "replace") in accepted.topics]
        mask &= np.isin(codes, mine)
    return mask


def _counted(values: Array) -> Counter[int]:
    found, counts = np.unique(values, return_counts=True)
    return Counter(dict(zip(found.tolist(), counts.tolist(), strict=True)))


def _keys(data: memoryview, rows: FixedColumns, chosen: Array) -> Counter[str]:
    properties = join_properties(data, rows)
    values = properties.values(PropertyName.KEYS)
    # A later KEYS property of a record replaces an earlier one, as in `decode_properties`.
    last = {row: (start, stop) for row, start, stop in zip(*(part.tolist() for part in values), strict=True)}
    texts = (
        str(properties.text[slice(*last[row])], "utf-8", "replace") for row in chosen.tolist() if row in last
    )
    return Counter(key for text in texts for key in split_keys(text))
