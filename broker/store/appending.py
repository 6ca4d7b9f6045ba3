"""The write path: a message becomes a record and a queue entry before `append` returns. Index items are added
and listeners called then too or, for a batch of requests, once the batch has its replies.

Limits (`DefaultMessageStore.checkMessage`, `CommitLog`): topic 127 bytes, properties 32767 bytes, body
`maxMessageSize`, record that plus 64 KiB. The store timestamp is read when the record's place is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from broker.store.batches import LONG_PROPERTIES, PART_PROPERTIES, Batch, StoredBatch, prepare_batch
from broker.store.commit_log import CommitLog
from broker.store.config import StoreConfig
from broker.store.consume_queue import ConsumeQueue
from broker.store.consume_queues import ConsumeQueues
from broker.store.index import Index
from broker.store.news import News
from broker.store.readiness import Readiness
from broker.store.room import NO_FILE, Room
from broker.store.statistics import Statistics
from broker.store.values import (
    AppendResult,
    Arrival,
    BitMapOf,
    PutStatus,
    StoreMessage,
)
from codec.codes import MessageSysFlag
from codec.core.derived import IndexItem
from codec.core.hashing import index_seed
from codec.core.run import Run
from codec.core.text import TextReader
from codec.errors import LocalProtocolError
from codec.names import SystemTopic
from codec.properties import MAX_PROPERTIES_LENGTH
from codec.store.delay_levels import DelayLevels
from codec.store.dispatch import delivery_time, has_index_items, has_queue_entry
from codec.store.record_encoder import sized_topic

MAX_TOPIC_BYTES = 127
MAX_CACHED_TOPICS = 65536
TRANSACTION_MASK = MessageSysFlag.TRANSACTION_MASK

_PUT_OK = PutStatus.PUT_OK
_NO_QUEUES: Mapping[int, ConsumeQueue] = {}
_SCHEDULE = SystemTopic.SCHEDULE
_ILLEGAL = AppendResult(PutStatus.MESSAGE_ILLEGAL)
_TOO_MANY_PROPERTIES = AppendResult(PutStatus.PROPERTIES_SIZE_EXCEEDED)
_NOT_AVAILABLE = AppendResult(PutStatus.SERVICE_NOT_AVAILABLE)
_log = logging.getLogger(__name__)


class _Topic(NamedTuple):
    """A topic as records have it, after its length, and the hash with which those of its keys begin."""

    sized: bytes
    seed: int


class Appender:
    """Appends messages. NotReady when `readiness` is strict and the disk has to do something first."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        statistics: Statistics,
        readiness: Readiness,
        *,
        now_ms: Callable[[], int],
        store_host: bytes,
    ) -> None:
        self._log = log
        self._queues = queues
        self._by_topic = queues.by_topic
        self._index = index
        self._statistics = statistics
        self._readiness = readiness
        self._room = Room(log, readiness)
        self._now_ms = now_ms
        self._store_host = store_host
        self._reader = TextReader()
        self.configure(config)
        self._topics: dict[str, _Topic] = {}
        self._in_batch = False
        self.news = News(index, self.half_stored)
        self.late = self.news.late
        self.bit_map: BitMapOf | None = None
        self.unserved: frozenset[str] = frozenset()
        """Topics that take no messages, as their queues are of a kind that this broker does not write."""
        self.delay_levels = DelayLevels(config.message_delay_level)

    def configure(self, config: StoreConfig) -> None:
        """Applies the limits of a configuration."""
        self._max_body = config.max_message_size

    def append(self, message: StoreMessage) -> AppendResult:
        """Store one message."""
        topic = self._topic(message.topic)
        refusal = self._refusal(topic, message)
        if refusal is not None or topic is None:
            return refusal or _ILLEGAL
        state = message.sys_flag & TRANSACTION_MASK
        queue = self._queue(message.topic, message.queue_id) if not state or has_queue_entry(state) else None
        if (
            queue is not None
            and (queue.next_offset >= queue.ready_until or queue.extension is not None)
            and not self._room.is_ready(queue, 1)
        ):
            return NO_FILE
        queue_offset = 0 if queue is None else queue.next_offset
        timestamp = self._now_ms()
        run = self._begin(LONG_PROPERTIES)
        offset = _add(run, topic, message, queue_offset, timestamp)
        size = run.sizes[0]
        if not self._log.write(run.records()):
            return self._room.make(size) or self.append(message)
        result = AppendResult(_PUT_OK, offset, size, queue_offset, timestamp)
        self._statistics.last_store_timestamp = timestamp
        message.tags_code = run.codes[0]
        try:
            self._dispatch(message, queue, result, run.items)
        except OSError as error:
            return self.half_stored(error)
        if not self._in_batch:
            self.news.announce()
        return result

    def append_run(self, messages: Sequence[StoreMessage]) -> list[AppendResult]:
        """Store messages with one write.

        The run ends before the first message that needs more than a record and an entry (a transaction, an
        extension, a delay, a new queue or file, a refusal), with the results of those before: `append` is for
        that one.
        """
        log, topics, by_topic = self._log, self._topics, self._by_topic
        timestamp = self._now_ms()
        run = self._begin(LONG_PROPERTIES)
        last_end = log.end + log.room if self._statistics.writable else log.end
        results: list[AppendResult] = []
        queues: list[ConsumeQueue] = []
        next_offsets: dict[ConsumeQueue, int] = {}
        for message in messages:
            topic = topics.get(message.topic)
            queue = by_topic.get(message.topic, _NO_QUEUES).get(message.queue_id)
            body, properties = message.body, message.properties_text
            if (
                topic is None
                or queue is None
                or queue.extension is not None
                or message.topic == _SCHEDULE
                or message.sys_flag & TRANSACTION_MASK
                or len(body) > self._max_body
                or len(properties) > LONG_PROPERTIES
            ):
                break
            queue_offset = next_offsets.get(queue) or queue.next_offset
            if queue_offset >= queue.ready_until:
                break
            if run.end + run.size_of(topic.sized, message.born_host, len(body), len(properties)) > last_end:
                break
            try:
                offset = _add(run, topic, message, queue_offset, timestamp)
            except LocalProtocolError:
                break
            next_offsets[queue] = queue_offset + 1
            queues.append(queue)
            results.append(AppendResult(_PUT_OK, offset, run.end - offset, queue_offset, timestamp))
        return self._stored(messages, results, queues, run) if results else results

    def _stored(
        self,
        messages: Sequence[StoreMessage],
        results: list[AppendResult],
        queues: list[ConsumeQueue],
        run: Run,
    ) -> list[AppendResult]:
        """Write the records of a run, then its queue entries."""
        self._log.write(run.records())
        self._statistics.last_store_timestamp = results[0].store_timestamp
        for message, result, queue, code in zip(messages, results, queues, run.codes, strict=False):
            message.tags_code = code
            queue.append(result.physical_offset, result.size, code)
        self.news.add(list(zip(messages, results, strict=False)), run.items)
        if not self._in_batch:
            self.news.announce()
        return results

    def prepare_batch(self, message: StoreMessage) -> Generator[None, None, list[Batch]]:
        """Check a batch in steps; return its parts for `append_batch`. Raises CodecError, IllegalBatch."""
        return prepare_batch(message, self._max_body)

    def append_batch(self, batch: Batch) -> AppendResult:
        """Store a batch, or a part of one, in one file, with consecutive offsets."""
        if not self._statistics.writable:
            return _NOT_AVAILABLE
        topic = self._topic(batch.topic)
        if batch.refusal is not None or topic is None:
            return batch.refusal or _ILLEGAL
        if batch.is_long and self._readiness.strict:
            self.late.require_room()
        queue = self._queue(batch.topic, batch.queue_id)
        if (
            queue.next_offset + len(batch) > queue.ready_until or queue.extension is not None
        ) and not self._room.is_ready(queue, len(batch), batch.hold):
            return NO_FILE
        first, begin, timestamp = queue.next_offset, self._log.end, self._now_ms()
        run = self._begin(-1 if batch.is_long else PART_PROPERTIES)
        batch.store(run, topic.sized, topic.seed, first, timestamp)
        if not self._log.write(run.records()):
            return self._room.make(run.end - begin) or self.append_batch(batch)
        self._statistics.last_store_timestamp = timestamp
        stored = StoredBatch(batch, run.offsets(), run.sizes, run.codes, first, timestamp)
        try:
            queue.append_run(stored.offsets, stored.sizes, self._entry_codes(stored, queue))
        except OSError as error:
            return self.half_stored(error)
        if batch.is_long:
            self.news.add_late(stored.arrivals(), batch.part.weight)
        else:
            self.news.add(stored, run.items)
        if not self._in_batch:
            self.news.announce()
        return AppendResult(_PUT_OK, begin, run.end - begin, first, timestamp, tuple(stored.offsets))

    def _entry_codes(self, stored: StoredBatch, queue: ConsumeQueue) -> Sequence[int]:
        """Return the `entry_code` of each message of a batch."""
        if queue.extension is None and stored.batch.topic != _SCHEDULE:
            return stored.codes
        return [
            self.entry_code(message, queue, result.store_timestamp) for message, result in stored.arrivals()
        ]

    def _begin(self, most_hashed: int) -> Run:
        return Run(self._store_host, self._log.end, most_hashed)

    def begin_batch(self) -> None:
        """Index and listeners wait until `end_batch`."""
        self._in_batch = True

    def end_batch(self) -> None:
        self._in_batch = False
        self.news.announce()

    def add_arrivals(self, arrivals: list[Arrival]) -> None:
        """Add index items, and call the listeners, for records that have their queue entries."""
        items: list[IndexItem] = []
        for arrival in arrivals:
            self._add_items(arrival, items)
        self.news.add(arrivals, items)
        if not self._in_batch:
            self.news.announce()

    def _topic(self, topic: str) -> _Topic | None:
        """Return a topic as records have it; None for one that is too long, or that is not served."""
        known = self._topics.get(topic)
        if known is not None:
            return known
        encoded = topic.encode("utf-8", "replace")
        if not encoded or len(encoded) > MAX_TOPIC_BYTES or topic in self.unserved:
            return None
        if len(self._topics) >= MAX_CACHED_TOPICS:
            self._topics.clear()
        known = self._topics[topic] = _Topic(sized_topic(encoded), index_seed(topic))
        return known

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        return self._by_topic.get(topic, _NO_QUEUES).get(queue_id) or self._queues.ensure(topic, queue_id)

    def _refusal(self, topic: _Topic | None, message: StoreMessage) -> AppendResult | None:
        if not self._statistics.writable:
            return _NOT_AVAILABLE
        if topic is None or (len(message.body) > self._max_body and not message.is_known):
            return _ILLEGAL
        size = len(message.properties_text)
        if size > LONG_PROPERTIES and self._readiness.strict:
            self.late.require_room()
        return _TOO_MANY_PROPERTIES if size > MAX_PROPERTIES_LENGTH else None

    def half_stored(self, error: OSError) -> AppendResult:
        """Refuses further messages: a record has no entry or index item until the store is opened again."""
        _log.error("the store takes no more messages until it is opened again: %s", error)
        self._statistics.set_damaged()
        return NO_FILE

    def _dispatch(
        self, message: StoreMessage, queue: ConsumeQueue | None, result: AppendResult, items: list[IndexItem]
    ) -> None:
        arrival = message, result
        if queue is None:
            self.index_only(arrival)
            return
        queue.append(
            result.physical_offset, result.size, self.entry_code(message, queue, result.store_timestamp)
        )
        if len(message.properties_text) > LONG_PROPERTIES:
            self.news.add_late((arrival,), len(message.properties_text))
        else:
            self.news.add([arrival], items)

    def index_only(self, arrival: Arrival) -> None:
        """Add the index items of a record without a queue entry."""
        message, _ = arrival
        if self._index is None or not has_index_items(message.sys_flag):
            return
        if self.late or len(message.properties_text) > LONG_PROPERTIES:
            self.late.add((arrival,), len(message.properties_text))
        else:
            items: list[IndexItem] = []
            self._add_items(arrival, items)
            self._index.add_items(items)

    def _add_items(self, arrival: Arrival, items: list[IndexItem]) -> None:
        """Add the index items of a record to a list."""
        message, result = arrival
        text, topic = message.properties_text, self._topic(message.topic)
        if topic is not None:
            self._reader.read(text, 0, len(text))
            self._reader.add_items(text, topic.seed, result.physical_offset, result.store_timestamp, items)

    def entry_code(self, message: StoreMessage, queue: ConsumeQueue, timestamp: int) -> int:
        """The tags code or delivery time of a queue entry, or the address of its extension."""
        if message.topic == _SCHEDULE:
            deliver_at = delivery_time(message.properties, timestamp, self.delay_levels)
            message.tags_code = deliver_at or message.tags_code
        code = message.tags_code
        if queue.extension is not None:
            bit_map = self.bit_map(message.topic, message.properties) if self.bit_map is not None else None
            code = queue.extension.put(code, timestamp, bit_map)
        return code


def _add(run: Run, topic: _Topic, message: StoreMessage, queue_offset: int, timestamp: int) -> int:
    """Add a message to a run; return the offset of its record. Raises LocalProtocolError."""
    return run.add(
        topic.sized,
        topic.seed,
        message.queue_id,
        message.flag,
        queue_offset,
        message.sys_flag,
        message.born_timestamp,
        message.born_host,
        timestamp,
        message.reconsume_times,
        message.prepared_transaction_offset,
        bytes(message.body),
        message.properties_text,
    )
