"""Shapes of topics in a commit log: bytes, rate by store time, sizes of bodies, number of keys.

One pass over the log in bounded memory: a topic costs at most about 30 KiB. Damage ends nothing: what follows
at the next whole record is counted, too. Bodies count as they are stored, perhaps compressed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from codec.errors import CorruptionError
from codec.message import MessageExt
from rmqcli.store.read.commit_log import CommitLogFiles, next_record, walk_file
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.log_reader import stored_message
from rmqcli.store.read.vectorised import block_records, is_vectorised
from rmqcli.store.stats.counts import TopicStatistics
from rmqcli.store.stats.distinct import Distinct, hash_of
from rmqcli.store.stats.distribution import Rate

_SCALAR_RECORDS = 256  # records that are read one by one before blocks are tried again
Progress = Callable[[int], None]


@dataclass(slots=True)
class TopicShape:
    """`bodies` counts messages by the bit length of their body's size, `keyed` those that have keys."""

    statistics: TopicStatistics
    bodies: Counter[int] = field(default_factory=Counter)
    largest_body: int = 0
    keyed: int = 0
    keys: Distinct = field(default_factory=Distinct)
    rate: Rate = field(default_factory=Rate)


class LogShape:
    """All topics of a log. `records` counts records by the bit length of their whole size; `skipped` is the
    number of damaged places.
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
        """Add counts by store time (ms) to a topic, whose steps become those of all."""
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
        """Return the messages of a topic by the steps of `rate`."""
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
        from codec.scan.blocks import sound_blocks
        from rmqcli.store.stats.topic_shape_blocks import add_block

        for block in sound_blocks(data, file.base, max_rows=block_records(), start=position):
            add_block(shape, block)
            position = block.end
    return position


def _add_records(file: NamedFile, data: memoryview, position: int, shape: LogShape) -> int | None:
    """Add records one by one; return the byte after them, None at damage without a whole record after it."""
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
