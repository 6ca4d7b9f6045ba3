"""Profiles of the topics in a commit log: bytes, rate by store time, body sizes, number of keys.

One pass over the log in bounded memory: a topic takes at most about 30 KiB. The pass does not end at damage:
it continues at the next whole record. Bodies count as they are stored, possibly compressed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

import numpy as np

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.scan.columns import Array
from rmqcli.codec.scan.properties import cut, join_properties
from rmqcli.codec.scan.walk import RecordBlock
from rmqcli.store.read.commit_log import CommitLogFiles, next_record, stored_message, walk_file
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.vectorised import block_records, is_vectorised
from rmqcli.store.stats.counts import TopicStatistics
from rmqcli.store.stats.distribution import Distinct, Rate, hash_of

_SCALAR_RECORDS = 256  # records that are read one by one before blocks are tried again
Progress = Callable[[int], None]


@dataclass(slots=True)
class TopicShape:
    """The profile of a topic.

    `bodies` counts messages by the bit length of the body size, `keyed` those with keys.
    """

    statistics: TopicStatistics
    bodies: Counter[int] = field(default_factory=Counter)
    largest_body: int = 0
    keyed: int = 0
    keys: Distinct = field(default_factory=Distinct)
    rate: Rate = field(default_factory=Rate)


class LogShape:
    """All topics of a log.

    `records` counts records by the bit length of their total size; `skipped` counts damaged places.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicShape] = {}
        self.records: Counter[int] = Counter()
        self.rate = Rate()
        self.skipped = 0

    def topic(self, name: str) -> TopicShape:
        if name not in self.topics:
            self.topics[name] = TopicShape(TopicStatistics(name))
        return self.topics[name]

    def add_times(self, name: str, counts: Iterable[tuple[int, int]]) -> None:
        """Add counts by store time (ms) to a topic, using the intervals of the rate of all topics."""
        rate = self.topic(name).rate
        rate.widen(self.rate.step)
        for time, count in counts:
            rate.add(time, count)

    def add(self, message: MessageExt) -> None:
        """Add one message, its body as stored."""
        shape, size, time = self.topic(message.topic), len(message.body), message.store_timestamp
        shape.statistics.add(message)
        shape.bodies[size.bit_length()] += 1
        shape.largest_body = max(shape.largest_body, size)
        shape.keyed += bool(message.keys)
        shape.keys.add(hash_of(key.encode("utf-8", "surrogateescape")) for key in message.keys)
        self.records[message.store_size.bit_length()] += 1
        self.rate.add(time)
        self.add_times(message.topic, ((time, 1),))

    @property
    def messages(self) -> int:
        return sum(shape.statistics.messages for shape in self.topics.values())

    @property
    def size(self) -> int:
        return sum(shape.statistics.size for shape in self.topics.values())

    def counts_of(self, name: str) -> list[int]:
        """Return the number of messages of a topic in each interval of `rate`."""
        rate = self.topics[name].rate
        rate.widen(self.rate.step)
        return rate.counts_from(self.rate.begin, len(self.rate.counts))


def shape_of(log: CommitLogFiles, progress: Progress = lambda size: None) -> LogShape:
    """Read a log once. `progress` receives bytes."""
    shape = LogShape()
    for file in log.files:
        with mapped(file) as data:
            _add_file(file, data, shape, progress)
    return shape


def _add_file(file: NamedFile, data: memoryview, shape: LogShape, progress: Progress) -> None:
    position: int | None = 0
    while position is not None:
        begin = position
        position = _add_blocks(file, data, begin, shape)
        after = _add_records(file, data, position, shape)
        progress((after or len(data)) - begin)
        position = None if after == position else after


def _add_blocks(file: NamedFile, data: memoryview, position: int, shape: LogShape) -> int:
    """Return the byte after the records that were added in blocks."""
    if is_vectorised():
        from rmqcli.codec.scan.walk import sound_blocks

        for block in sound_blocks(data, file.base, max_rows=block_records(), start=position):
            add_block(shape, block)
            position = block.end
    return position


def _add_records(file: NamedFile, data: memoryview, position: int, shape: LogShape) -> int | None:
    """Add records one by one. Return the byte after them, or None at damage that no whole record follows."""
    try:
        for place, _ in islice(walk_file(file, data, position), _SCALAR_RECORDS if is_vectorised() else None):
            position = place.position
            message = stored_message(data, position)
            position += place.size
            shape.add(message)
    except CorruptionError:
        shape.skipped += 1
        return next_record(file, data, position + 1)
    return position


# The shapes of topics from many records at once. Needs NumPy.
#
# Records are sorted by topic and added up by runs: a block with thousands of topics costs a few steps of Python
# for each, not a few calls of NumPy.

_LOW = 32  # bits of the second part of a pair
_LOW_MASK = (1 << _LOW) - 1
_SECOND = 1000


def add_block(shape: LogShape, block: RecordBlock) -> None:
    rows, codes, topics = block.rows, *_coded(block)
    names = [str(topic, "utf-8", "replace") for topic in topics]
    _add_totals(shape, names, codes, rows)
    _add_times(shape, names, codes, rows["store_timestamp"])
    for code, bits, count in _counted(codes, _bit_lengths(rows["body_end"] - rows["body_start"])):
        shape.topics[names[code]].bodies[bits] += count
    for code, queue_id, _ in _counted(codes, rows["queue_id"].astype(np.int64) & _LOW_MASK):
        shape.topics[names[code]].statistics.queues.add(queue_id)
    for _, bits, count in _counted(np.zeros_like(codes), _bit_lengths(rows["total_size"])):
        shape.records[bits] += count
    _add_keys([shape.topics[name] for name in names], codes, block)


def _coded(block: RecordBlock) -> tuple[Array, list[bytes]]:
    """Return the topic number of each record, and the topics by number."""
    numbers: dict[bytes, int] = {}
    topics = cut(block.data, block.rows["topic_start"], block.rows["topic_end"])
    codes = [numbers.setdefault(topic, len(numbers)) for topic in topics]
    return np.array(codes, np.int64), list(numbers)


def _bit_lengths(values: Array) -> Array:
    # The exponent that frexp returns is the bit length of an integer.
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _counted(codes: Array, values: Array) -> Iterator[tuple[int, int, int]]:
    """Yield topic number, value in [0, 2**32) and number of records for each pair that occurs, by topic."""
    pairs, counts = np.unique(codes << _LOW | values, return_counts=True)
    return zip((pairs >> _LOW).tolist(), (pairs & _LOW_MASK).tolist(), counts.tolist(), strict=True)


def _add_totals(shape: LogShape, names: list[str], codes: Array, rows: Any) -> None:
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(names)))
    sizes, times = rows["total_size"][order].astype(np.int64), rows["store_timestamp"][order]
    bodies = (rows["body_end"] - rows["body_start"])[order].astype(np.int64)
    # Every topic has a record in the block, so that reduceat never gets an empty slice.
    columns = (
        np.diff(np.append(starts, len(codes))),
        np.add.reduceat(sizes, starts),
        np.add.reduceat(bodies, starts),
        np.maximum.reduceat(bodies, starts),
        np.minimum.reduceat(times, starts),
        np.maximum.reduceat(times, starts),
    )
    for name, messages, size, body, largest, first, last in zip(
        names, *(column.tolist() for column in columns), strict=True
    ):
        one = shape.topic(name)
        one.statistics.add_many(messages, size, body, (), (first, last))
        one.largest_body = max(one.largest_body, largest)


def _add_times(shape: LogShape, names: list[str], codes: Array, times: Array) -> None:
    seconds, counts = np.unique(times // _SECOND, return_counts=True)
    for second, count in zip(seconds.tolist(), counts.tolist(), strict=True):
        shape.rate.add(second * _SECOND, count)
    # Adding times may have widened the step, so it is read only now.
    step = shape.rate.step
    first = int(seconds[0]) * _SECOND // step
    # Times relative to the first one fit into the low half of a pair.
    found = _counted(codes, times // step - first)
    for code, of_topic in groupby(found, key=lambda one: one[0]):
        shape.add_times(names[code], (((first + number) * step, count) for _, number, count in of_topic))


def _add_keys(shapes: list[TopicShape], codes: Array, block: RecordBlock) -> None:
    properties = join_properties(block.data, block.rows)
    values = properties.values(PropertyName.KEYS)
    # A later KEYS property of a record replaces an earlier one, as in `decode_properties`.
    last = {row: (start, stop) for row, start, stop in zip(*(part.tolist() for part in values), strict=True)}
    of_topics: dict[int, list[int]] = {}
    for row, (start, stop) in last.items():
        keys = [key for key in properties.text[start:stop].split(b" ") if key]
        of_topics.setdefault(int(codes[row]), []).extend(map(hash_of, keys))
        shapes[int(codes[row])].keyed += bool(keys)
    for code, hashes in of_topics.items():
        shapes[code].keys.add(hashes)
