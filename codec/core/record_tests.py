"""Tests of records in place: every record that matches a filter passes, and few others do.

`rmqcli.codec.records.possible` makes them of a filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from rmqcli.codec.core.record_reader import RecordReader
from rmqcli.codec.core.text import is_same
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.store.record_layout import HOST_V4_SIZE, PREFIXES

LOWEST: Final = -(1 << 63)
HIGHEST: Final = (1 << 63) - 1
_PREFIX: Final = PREFIXES[0]
_BORN_HOST: Final[i64] = _PREFIX.offsets["born_host"]
_STORE_HOST: Final[i64] = _PREFIX.offsets["store_host"]
_V4: Final[i64] = HOST_V4_SIZE
_LONG: Final[i64] = 8


class RecordTest:
    """A test that all records pass."""

    def passes(self, record: RecordReader, data: bytes) -> bool:
        """Return False if the record last read from `data` cannot match."""
        return True


class NumberIn(RecordTest):
    """Tests that a number in the prefix of a record is in [low, high]."""

    def __init__(self, name: str, low: int = LOWEST, high: int = HIGHEST) -> None:
        """`name` is that of the field in `rmqcli.codec.store.record_layout`; the bounds may be any integers."""
        field = _PREFIX.fields[_PREFIX.names.index(name)]
        self._offset: i64 = field.offset
        self._size: i64 = field.size
        self._low: i64 = min(max(low, LOWEST), HIGHEST)
        self._high: i64 = min(max(high, LOWEST), HIGHEST)
        self._is_possible = low <= HIGHEST and high >= LOWEST

    def passes(self, record: RecordReader, data: bytes) -> bool:
        """Return False if the number of the record is outside of the range."""
        at: i64 = record.at + self._offset
        # The offsets are those in a record with IPv4 hosts.
        if self._offset > _STORE_HOST:
            at = record.store_host_end + self._offset - _STORE_HOST - _V4
        elif self._offset > _BORN_HOST:
            at = record.born_host_end + self._offset - _BORN_HOST - _V4
        value: i64 = read_i64_be(data, at) if self._size == _LONG else i64(read_i32_be(data, at))
        return self._is_possible and self._low <= value <= self._high


class TopicIn(RecordTest):
    """Tests that the topic is one of some encoded topics."""

    def __init__(self, topics: Sequence[bytes]) -> None:
        self._topics = list(topics)

    def passes(self, record: RecordReader, data: bytes) -> bool:
        """Return False if the record has another topic."""
        return any(is_same(data, record.topic_at, record.topic_end, topic) for topic in self._topics)


class PropertiesContain(RecordTest):
    """Tests that the text of the properties contains one of some texts."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = list(texts)

    def passes(self, record: RecordReader, data: bytes) -> bool:
        """Return False if the properties contain none of the texts."""
        properties = data[record.properties_at : record.end]
        return any(text in properties for text in self._texts)


class AllOf(RecordTest):
    """Tests that a record passes all of some tests."""

    def __init__(self, tests: Sequence[RecordTest]) -> None:
        self._tests = list(tests)

    def passes(self, record: RecordReader, data: bytes) -> bool:
        """Return False if the record fails one of the tests."""
        return all(test.passes(record, data) for test in self._tests)


class AnyOf(RecordTest):
    """Tests that a record passes one of some tests."""

    def __init__(self, tests: Sequence[RecordTest]) -> None:
        self._tests = list(tests)

    def passes(self, record: RecordReader, data: bytes) -> bool:
        """Return False if the record fails all tests."""
        return any(test.passes(record, data) for test in self._tests)


def next_passing(walk: Walk, test: RecordTest, most: i64) -> bool:
    """Move a walk to the next record that passes a test; return False if it ended, or if `most` records did not
    pass.

    Raises the errors of `Walk.next`.
    """
    while most > 0 and walk.next():
        if test.passes(walk.record, walk.data):
            return True
        most -= 1
    return False
