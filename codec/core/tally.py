"""Counts of records by topic: sizes, store times, queues and keys."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from rmqcli.codec.compression import COMPRESSED
from rmqcli.codec.core.record_tests import RecordTest, next_passing
from rmqcli.codec.core.text import TextReader
from rmqcli.codec.core.walk import Walk

_COMPRESSED: Final[i64] = COMPRESSED
_LENGTHS: Final = 33
_SECOND: Final[i64] = 1000


def _bit_length(number: i64) -> i64:
    length: i64 = 0
    while number > 0:
        number >>= 1
        length += 1
    return length


class TopicTally:
    """Counts of the records of a topic, with sizes in bytes and times in ms.

    `sizes` and `bodies` count records by the bit lengths of the sizes of the record and of its body,
    `seconds` by the second of the store time, and `keyed` those with keys. `keys` has each key of each
    record. `compressed` are the positions of records whose bodies are compressed; all sizes are as stored.
    """

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.size: i64 = 0
        self.body_size: i64 = 0
        self.largest_body: i64 = 0
        self.first: i64 = 0
        self.last: i64 = 0
        self.keyed: i64 = 0
        self.queues: set[int] = set()
        self.sizes: list[int] = [0] * _LENGTHS
        self.bodies: list[int] = [0] * _LENGTHS
        self.seconds: dict[int, int] = {}
        self.keys: list[bytes] = []
        self.compressed: list[int] = []
        self._queue: i64 = -1

    def add(self, walk: Walk, keys: list[bytes]) -> None:
        """Count the record of a walk, which has these keys."""
        record, time = walk.record, walk.record.store_timestamp
        # The body is missing from the data of a long record.
        body: i64 = record.body_end - record.body_at + walk.size - (record.end - record.at)
        if self.messages == 0:
            self.first = self.last = time
        self.first = min(self.first, time)
        self.last = max(self.last, time)
        self.messages += 1
        self.size += walk.size
        self.body_size += body
        self.largest_body = max(self.largest_body, body)
        self.sizes[_bit_length(walk.size)] += 1
        self.bodies[_bit_length(body)] += 1
        # Most records are of the queue of the one before. The second test is for a first queue id of -1.
        if record.queue_id != self._queue or not self.queues:
            self._queue = record.queue_id
            self.queues.add(record.queue_id)
        second: i64 = time // _SECOND
        self.seconds[second] = self.seconds.get(second, 0) + 1
        if record.sys_flag & _COMPRESSED:
            self.compressed.append(walk.position)
        if keys:
            self.keyed += 1
            self.keys += keys


class Tally:
    """Counts of the records that pass a test, by encoded topic."""

    def __init__(self, test: RecordTest) -> None:
        """Begin without records."""
        self._test = test
        self._text = TextReader()
        self._topic = b""
        self._last: TopicTally | None = None
        self.topics: dict[bytes, TopicTally] = {}

    def add_all(self, walk: Walk, most: i64) -> None:
        """Continue a walk by at most `most` records, and count those that pass. Raises the errors of `Walk.next`."""
        end: i64 = walk.count + most
        while next_passing(walk, self._test, end - walk.count):
            record, data = walk.record, walk.data
            self._text.read(data, record.properties_at, record.end)
            self._of(data[record.topic_at : record.topic_end]).add(walk, self._text.words(data))

    def _of(self, topic: bytes) -> TopicTally:
        last = self._last
        if last is None or topic != self._topic:
            last = self.topics.get(topic)
            if last is None:
                last = self.topics[topic] = TopicTally()
            self._topic = topic
            self._last = last
        return last
