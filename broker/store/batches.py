"""Batches: many messages that are stored together, with consecutive queue offsets.

To decode and encode them takes steps. A long batch is stored in parts, a part being stored at once; other
messages of its queue wait until the whole batch is stored (`ConsumeQueues.holding`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain

import msgspec

from broker.errors import IllegalBatch
from broker.store.holds import Hold
from broker.store.values import AppendResult, Arrival, PutStatus, StoreMessage
from codec.hashing import tags_code
from codec.layout import Buffer
from codec.message_batch import count_batch, walk_batch
from codec.properties import TIMERS, PropertyName, decode_properties, sound_text
from codec.store.record_encoder import RecordEncoder

MOST_MESSAGES = 32768
"""More than fit in 4 MiB of records as Java's clients send them."""
MESSAGES_PER_STEP = 2
COUNTED_PER_STEP = 64
MAX_PROPERTIES_BYTES = 32767
LONG_PROPERTIES = 2048
"""Bytes of properties of a message; the index items of longer ones are added later, in steps."""
PART_PROPERTIES = 4 * LONG_PROPERTIES
"""The same for all messages of a part."""
PART_MESSAGES = 64
PART_BYTES = 128 * 1024
"""A part of a batch ends with the message that reaches one of these."""
PROPERTY_END = b"\x02"


class Batch(msgspec.Struct):
    """A batch, or a part of a long one, ready to be stored: its messages, their records without offsets and
    store time, and where each record begins. `refusal` says why it cannot be stored; `hold` is that of the
    batch on its queue.
    """

    message: StoreMessage
    items: list[StoreMessage] = []
    records: bytearray = msgspec.field(default_factory=bytearray)
    starts: list[int] = []
    refusal: AppendResult | None = None
    hold: Hold | None = None

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def queue_id(self) -> int:
        return self.message.queue_id

    @property
    def is_long(self) -> bool:
        """True when its index items are added later."""
        return self.weight > PART_PROPERTIES

    @property
    def weight(self) -> int:
        """Bytes of properties, whose keys become index items."""
        return sum(len(item.properties_text) for item in self.items)

    @property
    def is_full(self) -> bool:
        """True when the next message belongs into another part."""
        return len(self.items) >= PART_MESSAGES or len(self.records) >= PART_BYTES

    def spans(self) -> Iterator[tuple[StoreMessage, int, int]]:
        """Each message, and where its record begins and how long it is."""
        ends = chain(self.starts[1:], (len(self.records),))
        for item, start, end in zip(self.items, self.starts, ends, strict=True):
            yield item, start, end - start

    def arrivals(self, begin: int, queue_offset: int, timestamp: int) -> Iterator[Arrival]:
        """The messages, stored from an offset of the log and of the queue on."""
        for number, (item, start, size) in enumerate(self.spans(), queue_offset):
            yield item, AppendResult(PutStatus.PUT_OK, begin + start, size, number, timestamp)


def prepare_batch(
    message: StoreMessage, topic: bytes, encoder: RecordEncoder, max_body: int
) -> Generator[None, None, list[Batch]]:
    """The parts of a batch, in order: its items decoded, each with its own properties and then those of the
    whole batch. A batch that is refused has one part. Of properties that do not parse, the pairs that Java
    reads are stored.

    It yields after every step. IllegalBatch, CodecError.
    """
    if not topic or len(message.body) > max_body:
        return [_refused(message, PutStatus.MESSAGE_ILLEGAL)]
    if len(message.properties_text) > MAX_PROPERTIES_BYTES:
        return [_refused(message, PutStatus.PROPERTIES_SIZE_EXCEEDED)]
    yield from _check_count(message.body)
    parts = [Batch(message)]
    for number, (flag, body, properties) in enumerate(walk_batch(message.body)):
        text = _joined(properties, message.properties_text)
        if len(text) > MAX_PROPERTIES_BYTES:
            return [_refused(message, PutStatus.PROPERTIES_SIZE_EXCEEDED)]
        if parts[-1].is_full:
            parts.append(Batch(message))
        _add(parts[-1], topic, encoder, flag, body, text)
        if number % MESSAGES_PER_STEP == MESSAGES_PER_STEP - 1:
            yield
    return parts if parts[0].items else [_refused(message, PutStatus.MESSAGE_ILLEGAL)]


def _refused(message: StoreMessage, status: PutStatus) -> Batch:
    return Batch(message, refusal=AppendResult(status))


def _check_count(body: Buffer) -> Generator[None, None, None]:
    """IllegalBatch for too many items, before memory is spent on any."""
    for number in count_batch(body):
        if number > MOST_MESSAGES:
            raise IllegalBatch(f"a batch has {MOST_MESSAGES} messages at most")
        if number % COUNTED_PER_STEP == 0:
            yield


def _add(batch: Batch, topic: bytes, encoder: RecordEncoder, flag: int, body: bytes, text: bytes) -> None:
    common, properties = batch.message, decode_properties(text)
    text = sound_text(text, properties)
    if not TIMERS.isdisjoint(properties):
        name = min(TIMERS & properties.keys())
        raise IllegalBatch(f"a message of a batch has the property {name}: send it alone")
    batch.items.append(
        StoreMessage(
            common.topic,
            common.queue_id,
            body,
            properties,
            text,
            common.born_timestamp,
            common.born_host,
            flag,
            common.sys_flag,
            common.reconsume_times,
            common.prepared_transaction_offset,
            tags_code(properties.get(PropertyName.TAGS)),
            common.wait_store,
        )
    )
    _, record = encoder.pieces(
        topic,
        common.queue_id,
        flag,
        0,
        0,
        common.sys_flag,
        common.born_timestamp,
        common.born_host,
        0,
        common.reconsume_times,
        common.prepared_transaction_offset,
        body,
        text,
    )
    batch.starts.append(len(batch.records))
    batch.records += b"".join(record)


def _joined(own: bytes, common: bytes) -> bytes:
    if not own or not common:
        return own or common
    return own + common if own.endswith(PROPERTY_END) else own + PROPERTY_END + common
