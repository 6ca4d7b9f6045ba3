"""The queue entries and index items of many records of a commit log, derived in log order.

`rmqcli.codec.records.dispatch` has the rules. A few kinds of records are left to it: those of the schedule
topic, whose entries contain a time, those with entries in further queues, inner batches of 5.x, and those
that no queue can hold.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.core.hashing import index_seed
from rmqcli.codec.core.text import FURTHER, UNSOUND, TextReader
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.store.consume_queue import ENTRY_SIZE
from rmqcli.codec.store.file_names import MAX_OFFSET

KEYED_SIZE: Final[i64] = 20
"""Bytes of an item: hash (int32), commit-log offset and store time in ms (both int64)."""
_HIGHEST: Final[i64] = MAX_OFFSET // ENTRY_SIZE
"""The highest queue offset that is accepted."""
_INNER_BATCH: Final[i64] = MessageSysFlag.INNER_BATCH
_PREPARED: Final[i64] = MessageSysFlag.TRANSACTION_PREPARED
_ROLLBACK: Final[i64] = MessageSysFlag.TRANSACTION_ROLLBACK
_TRANSACTION: Final[i64] = MessageSysFlag.TRANSACTION_MASK
_SCHEDULE: Final = str(SystemTopic.SCHEDULE)


class EntryRun(NamedTuple):
    """Entries of messages in one queue with adjacent queue offsets, [first, end).

    The messages are at commit-log offsets from `begin` to `last`.
    """

    topic: str
    queue_id: int
    first: int
    end: int
    begin: int
    last: int
    entries: bytes


class _OpenRun:
    """A run that may still grow."""

    def __init__(self, topic: str, queue_id: i64, first: i64, begin: i64) -> None:
        self.topic = topic
        self.queue_id: i64 = queue_id
        self.first: i64 = first
        self.end: i64 = first
        self.begin: i64 = begin
        self.last: i64 = begin
        self.entries = BytesWriter()

    def add(self, offset: i64, size: i64, code: i64) -> None:
        """Add the entry of the next message."""
        write_i64_be(self.entries, offset)
        write_i32_be(self.entries, i32(size))
        write_i64_be(self.entries, code)
        self.last = offset
        self.end += 1


class _Topic:
    """A topic: its name, its `index_seed`, and its last run in each queue."""

    def __init__(self, name: str, is_apart: bool) -> None:
        self.name = name
        self.seed: i64 = index_seed(name)
        self.is_apart = is_apart
        self.queues: dict[int, _OpenRun] = {}


class Dispatch:
    """Collects the queue entries and index items of records. If `derives` is False, it only parses their
    properties.
    """

    def __init__(self, derives: bool = True, apart: Collection[str] = ()) -> None:
        """Begin without records. Those of the topics in `apart` are also left to `rmqcli.codec.records.dispatch`."""
        self._derives = derives
        self._apart = frozenset((*apart, _SCHEDULE))
        self._runs: list[_OpenRun] = []
        self._items = BytesWriter()
        self._text = TextReader()
        self._topics: dict[bytes, _Topic] = {}
        self._named: dict[str, _Topic] = {}
        self._topic = b""
        self._last = self._of_name("")

    def take(self) -> tuple[list[EntryRun], bytes]:
        """Return the collected data and begin from scratch: runs, in log order for each queue, and index
        items of KEYED_SIZE bytes each.
        """
        found: list[EntryRun] = []
        for run in self._runs:
            # A queue whose offsets have gaps has several runs, and may have been removed for another one.
            self._of_name(run.topic).queues.pop(run.queue_id, None)
            found.append(
                EntryRun(
                    run.topic, run.queue_id, run.first, run.end, run.begin, run.last, run.entries.getvalue()
                )
            )
        items = self._items.getvalue()
        self._runs = []
        self._items = BytesWriter()
        return found, items

    def put(self, topic: str, queue_id: i64, queue_offset: i64, offset: i64, size: i64, code: i64) -> None:
        """Add a queue entry, unless no queue can have its queue offset."""
        if 0 <= queue_offset <= _HIGHEST:
            self._put(self._of_name(topic), queue_id, queue_offset, offset, size, code)

    def put_item(self, key_hash: i64, offset: i64, timestamp: i64) -> None:
        """Add an index item."""
        write_i32_be(self._items, i32(key_hash))
        write_i64_be(self._items, offset)
        write_i64_be(self._items, timestamp)

    def add_all(self, walk: Walk, most: i64 = 1 << 60) -> bool:
        """Continue a walk and add up to `most` of its records.

        Returns False, with the walk at that record, if a record was not added: its properties may not parse,
        or it is one of those left to `rmqcli.codec.records.dispatch`. Raises the errors of `Walk.next`.
        """
        while most > 0 and walk.next():
            if not self._add(walk):
                return False
            most -= 1
        return True

    def _add(self, walk: Walk) -> bool:
        record, data, text = walk.record, walk.data, self._text
        traits: i64 = text.read(data, record.properties_at, record.end)
        if not self._derives:
            return traits & UNSOUND == 0
        topic = self._of_bytes(data[record.topic_at : record.topic_end])
        flag: i64 = record.sys_flag
        is_possible = 0 <= record.queue_offset <= _HIGHEST
        if topic.is_apart or traits & (UNSOUND | FURTHER) or flag & _INNER_BATCH or not is_possible:
            return False
        offset: i64 = record.physical_offset
        # ROLLBACK has the bit of PREPARED as well: neither has an entry.
        if flag & _PREPARED == 0:
            self._put(topic, record.queue_id, record.queue_offset, offset, walk.size, text.code(data))
        # Prepared messages have index items, unlike queue entries (Java `IndexService.buildIndex`).
        if flag & _TRANSACTION != _ROLLBACK:
            key_hash: i64 = text.next_hash(data, topic.seed)
            while key_hash >= 0:
                self.put_item(key_hash, offset, record.store_timestamp)
                key_hash = text.next_hash(data, topic.seed)
        return True

    def _put(
        self, topic: _Topic, queue_id: i64, queue_offset: i64, offset: i64, size: i64, code: i64
    ) -> None:
        run = topic.queues.get(queue_id)
        if run is None or run.end != queue_offset:
            run = _OpenRun(topic.name, queue_id, queue_offset, offset)
            topic.queues[queue_id] = run
            self._runs.append(run)
        run.add(offset, size, code)

    def _of_bytes(self, name: bytes) -> _Topic:
        if name == self._topic:  # most records have the topic of the one before
            return self._last
        topic = self._topics.get(name)
        if topic is None:
            # Different topics that are not UTF-8 may decode to the same name.
            topic = self._topics[name] = self._of_name(name.decode("utf-8", "replace"))
        self._topic = name
        self._last = topic
        return topic

    def _of_name(self, name: str) -> _Topic:
        topic = self._named.get(name)
        if topic is None:
            topic = self._named[name] = _Topic(name, name in self._apart)
        return topic
