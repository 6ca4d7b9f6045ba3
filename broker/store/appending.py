"""The write path: a message becomes a record and a queue entry before `append` returns. Index items are added
and listeners called then too or, for a batch of requests, once the batch has its replies.

Limits (`DefaultMessageStore.checkMessage`, `CommitLog`): topic 127 bytes, properties 32767 bytes, body
`maxMessageSize`, record that plus 64 KiB. The store timestamp is read when the record's place is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from itertools import accumulate

from broker.store.batches import LONG_PROPERTIES, MAX_PROPERTIES_BYTES, Batch, StoredBatch, prepare_batch
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
from codec.errors import LocalProtocolError
from codec.names import SystemTopic
from codec.store.delay_levels import DelayLevels
from codec.store.dispatch import delivery_time, has_index_items, has_queue_entry
from codec.store.record_encoder import RecordEncoder

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
        self._encoder = RecordEncoder(store_host)
        self.configure(config)
        self._topics: dict[str, bytes] = {}
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
        """Stores one message."""
        topic = message.topic
        sized_topic = self._topics.get(topic) or self._sized_topic(topic)
        refusal = self._refusal(sized_topic, message)
        if refusal is not None:
            return refusal
        state = message.sys_flag & TRANSACTION_MASK
        queue = self._queue(topic, message.queue_id) if not state or has_queue_entry(state) else None
        if (
            queue is not None
            and (queue.next_offset >= queue.ready_until or queue.extension is not None)
            and not self._room.is_ready(queue, 1)
        ):
            return NO_FILE
        queue_offset = 0 if queue is None else queue.next_offset
        timestamp = self._now_ms()
        offset = self._log.end
        record = self._encode(message, sized_topic, queue_offset, offset, timestamp)
        size = len(record)
        if not self._log.write(record):
            return self._room.make(size) or self.append(message)
        result = AppendResult(_PUT_OK, offset, size, queue_offset, timestamp)
        self._statistics.last_store_timestamp = timestamp
        try:
            self._dispatch(message, queue, result)
        except OSError as error:
            return self.half_stored(error)
        if not self._in_batch:
            self.news.announce()
        return result

    def append_run(self, messages: Sequence[StoreMessage]) -> list[AppendResult]:
        """Stores messages with one write: the hot path, without calls that can be avoided.

        It ends before the first message that needs more than a record and an entry (a transaction, an
        extension, a delay, a new queue or file, a refusal), with the results of those before: `append` is for
        that one.
        """
        log, topics, by_topic, pieces_of = self._log, self._topics, self._by_topic, self._encoder.pieces
        timestamp = self._now_ms()
        begin = end = log.end
        last_end = begin + log.room if self._statistics.writable else begin
        results: list[AppendResult] = []
        pieces: list[bytes | memoryview] = []
        entries: list[tuple[ConsumeQueue, int, int, int]] = []
        next_offsets: dict[ConsumeQueue, int] = {}
        for message in messages:
            topic, queue_id, sys_flag = message.topic, message.queue_id, message.sys_flag
            body, properties = message.body, message.properties_text
            sized_topic = topics.get(topic)
            queue = by_topic.get(topic, _NO_QUEUES).get(queue_id)
            if (
                sized_topic is None
                or queue is None
                or queue.extension is not None
                or topic == _SCHEDULE
                or sys_flag & TRANSACTION_MASK
                or len(body) > self._max_body
                or len(properties) > LONG_PROPERTIES
            ):
                break
            queue_offset = next_offsets.get(queue) or queue.next_offset
            if queue_offset >= queue.ready_until:
                break
            try:
                size, record = pieces_of(
                    sized_topic,
                    queue_id,
                    message.flag,
                    queue_offset,
                    end,
                    sys_flag,
                    message.born_timestamp,
                    message.born_host,
                    timestamp,
                    message.reconsume_times,
                    message.prepared_transaction_offset,
                    body,
                    properties,
                )
            except LocalProtocolError:
                break
            if end + size > last_end:
                break
            next_offsets[queue] = queue_offset + 1
            pieces += record
            entries.append((queue, end, size, message.tags_code))
            results.append(AppendResult(_PUT_OK, end, size, queue_offset, timestamp))
            end += size
        return self._stored(messages, results, entries, b"".join(pieces)) if results else results

    def _stored(
        self,
        messages: Sequence[StoreMessage],
        results: list[AppendResult],
        entries: list[tuple[ConsumeQueue, int, int, int]],
        run: bytes,
    ) -> list[AppendResult]:
        """Writes the records of a run, then its queue entries."""
        self._log.write(run)
        self._statistics.last_store_timestamp = results[0].store_timestamp
        for queue, offset, size, code in entries:
            queue.append(offset, size, code)
        self.news.add(zip(messages, results, strict=False))
        if not self._in_batch:
            self.news.announce()
        return results

    def prepare_batch(self, message: StoreMessage) -> Generator[None, None, list[Batch]]:
        """Decodes and encodes a batch in steps, in parts for `append_batch`. CodecError, IllegalBatch."""
        topic = self._topics.get(message.topic) or self._sized_topic(message.topic)
        return prepare_batch(message, topic, self._encoder, self._max_body)

    def append_batch(self, batch: Batch) -> AppendResult:
        """Stores a batch, or a part of one, in one file, with consecutive offsets."""
        if not self._statistics.writable:
            return _NOT_AVAILABLE
        if batch.refusal is not None:
            return batch.refusal
        if batch.is_long and self._readiness.strict:
            self.late.require_room()
        queue = self._queue(batch.topic, batch.queue_id)
        if (
            queue.next_offset + len(batch) > queue.ready_until or queue.extension is not None
        ) and not self._room.is_ready(queue, len(batch), batch.hold):
            return NO_FILE
        first, begin, timestamp = queue.next_offset, self._log.end, self._now_ms()
        topic = self._topics.get(batch.topic) or self._sized_topic(batch.topic)
        records, sizes = batch.records(self._encoder, topic, first, begin, timestamp)
        if not self._log.write(records):
            return self._room.make(len(records)) or self.append_batch(batch)
        self._statistics.last_store_timestamp = timestamp
        offsets = tuple(accumulate(sizes[:-1], initial=begin))
        try:
            queue.append_run(offsets, sizes, self._codes(batch, queue, timestamp))
        except OSError as error:
            return self.half_stored(error)
        self.news.add_batch(StoredBatch(batch, offsets, sizes, first, timestamp))
        if not self._in_batch:
            self.news.announce()
        return AppendResult(_PUT_OK, begin, len(records), first, timestamp, offsets)

    def _codes(self, batch: Batch, queue: ConsumeQueue, timestamp: int) -> list[int]:
        """The `entry_code` of each message of a batch."""
        if queue.extension is None and batch.topic != _SCHEDULE:
            return batch.codes
        messages = list(batch.messages())
        codes = [self.entry_code(message, queue, timestamp) for message in messages]
        batch.codes = [message.tags_code for message in messages]
        return codes

    def begin_batch(self) -> None:
        """Index and listeners wait until `end_batch`."""
        self._in_batch = True

    def end_batch(self) -> None:
        self._in_batch = False
        self.news.announce()

    def add_arrivals(self, arrivals: Iterable[Arrival]) -> None:
        """Adds index items, and calls the listeners, for records that have their queue entries."""
        self.news.add(arrivals)
        if not self._in_batch:
            self.news.announce()

    def _sized_topic(self, topic: str) -> bytes:
        """The name behind a byte with its length; empty for one that is too long."""
        encoded = topic.encode("utf-8", "replace")
        if len(encoded) > MAX_TOPIC_BYTES or topic in self.unserved:
            return b""
        if len(self._topics) >= MAX_CACHED_TOPICS:
            self._topics.clear()
        sized = self._topics[topic] = self._encoder.sized_topic(encoded)
        return sized

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        return self._by_topic.get(topic, _NO_QUEUES).get(queue_id) or self._queues.ensure(topic, queue_id)

    def _refusal(self, topic: bytes, message: StoreMessage) -> AppendResult | None:
        if not self._statistics.writable:
            return _NOT_AVAILABLE
        if not topic or len(message.body) > self._max_body:
            return _ILLEGAL
        size = len(message.properties_text)
        if size > LONG_PROPERTIES and self._readiness.strict:
            self.late.require_room()
        return _TOO_MANY_PROPERTIES if size > MAX_PROPERTIES_BYTES else None

    def half_stored(self, error: OSError) -> AppendResult:
        """Refuses further messages: a record has no entry or index item until the store is opened again."""
        _log.error("the store takes no more messages until it is opened again: %s", error)
        self._statistics.set_damaged()
        return NO_FILE

    def _encode(
        self, message: StoreMessage, topic: bytes, queue_offset: int, offset: int, timestamp: int
    ) -> bytes:
        _, record = self._encoder.pieces(
            topic,
            message.queue_id,
            message.flag,
            queue_offset,
            offset,
            message.sys_flag,
            message.born_timestamp,
            message.born_host,
            timestamp,
            message.reconsume_times,
            message.prepared_transaction_offset,
            message.body,
            message.properties_text,
        )
        return b"".join(record)

    def _dispatch(self, message: StoreMessage, queue: ConsumeQueue | None, result: AppendResult) -> None:
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
            self.news.add((arrival,))

    def index_only(self, arrival: Arrival) -> None:
        """Adds the index items of a record without a queue entry."""
        message, _ = arrival
        if self._index is None or not has_index_items(message.sys_flag):
            return
        if self.late or len(message.properties_text) > LONG_PROPERTIES:
            self.late.add((arrival,), len(message.properties_text))
        else:
            self._index.add_arrivals((arrival,))

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
