"""The write path: a message becomes a record and a queue entry before `append` returns. Index items are added
and listeners called before that as well or, for a batch of requests, once the batch has its replies.

Limits (`DefaultMessageStore.checkMessage`, `CommitLog`): topic 127 bytes, properties 32767 bytes, body
`maxMessageSize`, record that plus 64 KiB. The store timestamp is read once the offset of the record is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

from rmqcli.broker.store.arrivals import Arrivals
from rmqcli.broker.store.batches import LONG_PROPERTIES, Batch, Hold, prepare_batch
from rmqcli.broker.store.commit_log import CommitLog
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queue_ext import QueueExtension
from rmqcli.broker.store.consume_queues import ConsumeQueues
from rmqcli.broker.store.index import Index
from rmqcli.broker.store.prepare import NO_FILE, Room
from rmqcli.broker.store.readiness import Readiness
from rmqcli.broker.store.values import AppendResult, BitMapOf, PutStatus, Statistics, StoreMessage
from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.core.hashing import index_seed
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.core.record_writer import NO_LIMIT, QueueRun, Run
from rmqcli.codec.core.text import TextReader
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.property_names import MAX_PROPERTIES_LENGTH
from rmqcli.codec.records.dispatch import delivery_time, has_index_items, has_queue_entry
from rmqcli.codec.records.encoding import sized_topic
from rmqcli.codec.store.delay_levels import DelayLevels

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
    """A topic: its name, its encoding after its length as in records, and the seed for hashes of its keys."""

    name: str
    sized: bytes
    seed: int

    def run_of(self, queue_id: int, queue_offset: int, limit: int = NO_LIMIT) -> QueueRun:
        """Return an empty run of a queue that begins at an offset."""
        return QueueRun(self.name, self.sized, self.seed, queue_id, queue_offset, limit)


class Appender:
    """Appends messages. Raises NotReady if `readiness` is strict and the disk has to do something first."""

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
        self.arrivals = Arrivals(index, self.half_stored)
        self.late = self.arrivals.late
        self.bit_map: BitMapOf | None = None
        self.unserved: frozenset[str] = frozenset()
        """Topics that accept no messages, because this broker does not write their kind of queue."""
        self.delay_levels = DelayLevels(config.message_delay_level)

    def configure(self, config: StoreConfig) -> None:
        """Apply the limits of a configuration."""
        self.max_body = config.max_message_size

    def append(self, message: StoreMessage) -> AppendResult:
        """Store one message. Raises LocalProtocolError if the born host has neither 8 nor 20 bytes."""
        topic = self._topic(message.topic)
        refusal = self._refusal(topic, message)
        if refusal is not None or topic is None:
            return refusal or _ILLEGAL
        state, text = message.sys_flag & TRANSACTION_MASK, message.properties_text
        # Without transaction bits, the usual case, there is nothing to look up.
        has_entry, has_items = not state or has_queue_entry(state), not state or has_index_items(state)
        is_long = len(text) > LONG_PROPERTIES
        # The keys of long properties are hashed later, in steps, together with their index items.
        code, hashes = self._facts(text, topic, has_items=has_items and not is_long)

        def add(run: Run, stored: QueueRun) -> None:
            run.add(
                stored,
                message.flag,
                message.sys_flag,
                message.born_timestamp,
                message.born_host,
                message.reconsume_times,
                message.prepared_transaction_offset,
                bytes(message.body),  # the compiled core reads only bytes; those are not copied
                text,
                code,
                hashes,
            )

        return self._append(
            topic, message.queue_id, int(has_entry), add, len(text) if is_long and has_items else 0
        )

    def run_of(self, topic: str, queue_id: int) -> QueueRun | None:
        """Return an empty run of a queue for `append_run`; None if its messages need more than a record and
        an entry (an extension, a delay, a new queue) and so must use `append`.
        """
        known = self._topics.get(topic)
        queue = self._by_topic.get(topic, _NO_QUEUES).get(queue_id)
        if known is None or queue is None or queue.extension is not None or topic == _SCHEDULE:
            return None
        return known.run_of(queue_id, queue.next_offset, queue.ready_until)

    def begin_run(self) -> Run:
        """Return a run that ends where the log needs another file or more blocks from the disk."""
        # A store that accepts no messages returns a run without room, so every send goes to `append`, which
        # returns the reason.
        return self._begin(self._log.end + (self._log.room if self._statistics.writable else 0))

    def append_run(self, run: Run, queues: Sequence[QueueRun]) -> None:
        """Store the messages of several queues with one write: `run` is from `begin_run`, `queues` from
        `run_of`."""
        # Never refused: the run ends within the room that `begin_run` found.
        self._log.write(run.records())
        self._statistics.last_store_timestamp = run.timestamp
        for stored in queues:
            # This cannot need the disk: `run_of` has limited the run to what is ready.
            queue = self._by_topic[stored.topic][stored.queue_id]
            queue.append_run(stored.offsets, stored.sizes, stored.codes)
        self.arrivals.add(queues, run.items)
        self._announce()

    def prepare_batch(self, message: StoreMessage) -> Generator[None, None, list[Batch]]:
        """Check a batch in steps; return its parts for `append_batch`. Raises CodecError or IllegalBatch."""
        return prepare_batch(message, self.max_body, index_seed(message.topic))

    def append_batch(self, batch: Batch) -> AppendResult:
        """Store a batch, or a part of one, within one file and with consecutive offsets."""
        if not self._statistics.writable:
            return _NOT_AVAILABLE
        topic = self._topic(batch.topic)
        if batch.refusal is not None or topic is None:
            return batch.refusal or _ILLEGAL
        if batch.is_long and self._readiness.strict:
            self.late.require_room()
        weight = batch.part.weight if batch.is_long else 0
        return self._append(topic, batch.queue_id, len(batch), batch.store, weight, batch.hold)

    def _append(
        self,
        topic: _Topic,
        queue_id: int,
        entries: int,
        add: Callable[[Run, QueueRun], None],
        late_weight: int,
        hold: Hold | None = None,
    ) -> AppendResult:
        """Store the messages that `add` adds to a run, for one queue that gets `entries` entries.

        `late_weight` is the size of properties whose index items take long to compute; 0 if there are none.
        """
        queue = self._queue(topic.name, queue_id) if entries else None
        # Usually one comparison is enough: the entries fit into the blocks that are reserved and in memory.
        if (
            queue is not None
            and (queue.next_offset + entries > queue.ready_until or queue.extension is not None)
            and not self._room.is_ready(queue, entries, hold)
        ):
            return NO_FILE
        while True:
            # Built again for each attempt: `Room.make` may begin another file, which changes the offsets.
            stored = topic.run_of(queue_id, 0 if queue is None else queue.next_offset)
            run = self._begin()
            add(run, stored)
            size = run.end - run.begin
            if self._log.write(run.records()):
                break
            if (refusal := self._room.make(size)) is not None:
                return refusal
        self._statistics.last_store_timestamp = run.timestamp
        if queue is not None:
            try:
                queue.append_run(stored.offsets, stored.sizes, self.entry_codes(stored, queue))
            except OSError as error:
                return self.half_stored(error)
        told = () if queue is None else (stored,)
        if late_weight:
            self.arrivals.add_late(stored, told, late_weight)
        else:
            self.arrivals.add(told, run.items)
        self._announce()
        offsets = tuple(stored.offsets)
        return AppendResult(_PUT_OK, run.begin, size, stored.queue_offset, run.timestamp, offsets)

    def _begin(self, limit: int = NO_LIMIT) -> Run:
        """Return an empty run that begins at the end of the log."""
        return Run(self._store_host, self._log.end, self._now_ms(), limit)

    def _facts(self, text: bytes, topic: _Topic, *, has_items: bool) -> tuple[int, list[int]]:
        """Return the tags code of a properties text, and the hashes of its keys if `has_items`."""
        self._reader.read(text, 0, len(text))
        return self._reader.code(text), self._reader.hashes(text, topic.seed) if has_items else []

    def follow(self, records: Iterable[tuple[int, RecordScan, str, ConsumeQueue | None]]) -> None:
        """Add entries and index items of records that are in the log already: offset, fields, topic, and the
        queue that gets an entry, if any. Raises OSError.
        """
        run, told = self._begin(), list[QueueRun]()
        for offset, scan, name, queue in records:
            known = self._topic(name)
            # A copied log may have topics that accept no sends here: their records get no index items.
            topic = known or _Topic(name, b"", 0)
            has_items = known is not None and (queue is not None or has_index_items(scan.sys_flag))
            code, hashes = self._facts(scan.properties, topic, has_items=has_items)
            stored = topic.run_of(scan.queue_id, scan.queue_offset)
            run.note(stored, offset, scan.total_size, scan.store_timestamp, scan.properties, code, hashes)
            if queue is not None:
                queue.append_run(stored.offsets, stored.sizes, self.entry_codes(stored, queue))
                told.append(stored)
        self.arrivals.add(told, run.items)
        self._announce()

    def begin_batch(self) -> None:
        """Defer index items and listeners until `end_batch`."""
        self._in_batch = True

    def end_batch(self) -> None:
        self._in_batch = False
        self.arrivals.announce()

    def _topic(self, topic: str) -> _Topic | None:
        """Return a topic with its encoding; None if it is empty, too long, or not served."""
        known = self._topics.get(topic)
        if known is not None:
            return known
        # A name from JSON may contain a lone surrogate, which UTF-8 cannot encode.
        encoded = topic.encode("utf-8", "replace")
        if not encoded or len(encoded) > MAX_TOPIC_BYTES or topic in self.unserved:
            return None
        if len(self._topics) >= MAX_CACHED_TOPICS:
            # Senders choose the names, so that the cache needs a limit; its entries are cheap to make again.
            self._topics.clear()
        known = self._topics[topic] = _Topic(topic, sized_topic(encoded), index_seed(topic))
        return known

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        return self._by_topic.get(topic, _NO_QUEUES).get(queue_id) or self._queues.ensure(topic, queue_id)

    def _refusal(self, topic: _Topic | None, message: StoreMessage) -> AppendResult | None:
        if not self._statistics.writable:
            return _NOT_AVAILABLE
        if topic is None or (len(message.body) > self.max_body and not message.is_known):
            return _ILLEGAL
        size = len(message.properties_text)
        if size > LONG_PROPERTIES and self._readiness.strict:
            self.late.require_room()
        return _TOO_MANY_PROPERTIES if size > MAX_PROPERTIES_LENGTH else None

    def half_stored(self, error: OSError) -> AppendResult:
        """Refuse further messages, because a record has no entry or index item until the store is opened
        again."""
        _log.error("the store takes no more messages until it is opened again: %s", error)
        self._statistics.set_damaged()
        return NO_FILE

    def _announce(self) -> None:
        if not self._in_batch:
            self.arrivals.announce()

    def entry_codes(self, stored: QueueRun, queue: ConsumeQueue) -> Sequence[int]:
        """Return the tags code or delivery time of each entry, or the address of its extension."""
        if queue.extension is None and stored.topic != _SCHEDULE:
            return stored.codes
        return [
            self._entry_code(stored, decode_properties(text), code, queue.extension)
            for text, code in zip(stored.texts, stored.codes, strict=True)
        ]

    def _entry_code(
        self, stored: QueueRun, properties: dict[str, str], code: int, extension: QueueExtension | None
    ) -> int:
        if stored.topic == _SCHEDULE:
            code = delivery_time(properties, stored.timestamp, self.delay_levels) or code
        if extension is not None:
            bit_map = self.bit_map(stored.topic, properties) if self.bit_map is not None else None
            code = extension.put(code, stored.timestamp, bit_map)
        return code
