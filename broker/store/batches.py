"""Batches: many messages that are stored together. To decode and encode them takes steps; to store them does
not wait for anything, so that they get consecutive offsets.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain

import msgspec

from broker.errors import IllegalBatch
from broker.store.values import AppendResult, Arrival, PutStatus, StoreMessage
from codec.hashing import tags_code
from codec.message_batch import walk_batch
from codec.properties import TIMERS, PropertyName, decode_properties
from codec.store.record_encoder import RecordEncoder

MOST_MESSAGES = 32768
"""More than fit in 4 MiB of records as Java's clients send them."""
MESSAGES_PER_STEP = 8
MAX_PROPERTIES_BYTES = 32767
LONG_PROPERTIES = 2048
"""Bytes of properties; the index items of longer ones are added later, in steps."""
LONG_BATCH = 64
"""Messages; those of longer batches, too."""
PROPERTY_END = b"\x02"


class Batch(msgspec.Struct):
    """A batch, ready to be stored: its messages, their records without offsets and store time, and where each
    record begins. `refusal` says why it cannot be stored.
    """

    message: StoreMessage
    items: list[StoreMessage] = []
    records: bytearray = msgspec.field(default_factory=bytearray)
    starts: list[int] = []
    refusal: AppendResult | None = None

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def queue_id(self) -> int:
        return self.message.queue_id

    @property
    def is_long(self) -> bool:
        """True when its index items are added later."""
        return len(self.items) > LONG_BATCH or len(self.records) > LONG_BATCH * LONG_PROPERTIES

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
) -> Generator[None, None, Batch]:
    """Decodes the items of a batch, each with its own properties and then those of the whole batch.

    It yields after every step. IllegalBatch, CodecError.
    """
    batch = Batch(message)
    if not topic or len(message.body) > max_body:
        batch.refusal = AppendResult(PutStatus.MESSAGE_ILLEGAL)
    elif len(message.properties_text) > MAX_PROPERTIES_BYTES:
        batch.refusal = AppendResult(PutStatus.PROPERTIES_SIZE_EXCEEDED)
    for number, (flag, body, properties) in enumerate(walk_batch(message.body)):
        if number == MOST_MESSAGES:
            raise IllegalBatch(f"a batch has {MOST_MESSAGES} messages at most")
        text = _joined(properties, message.properties_text)
        if len(text) > MAX_PROPERTIES_BYTES:
            batch.refusal = batch.refusal or AppendResult(PutStatus.PROPERTIES_SIZE_EXCEEDED)
        if batch.refusal is None:
            _add(batch, topic, encoder, flag, body, text)
        if number % MESSAGES_PER_STEP == MESSAGES_PER_STEP - 1:
            yield
    if not batch.items and batch.refusal is None:
        batch.refusal = AppendResult(PutStatus.MESSAGE_ILLEGAL)
    return batch


def _add(batch: Batch, topic: bytes, encoder: RecordEncoder, flag: int, body: bytes, text: bytes) -> None:
    common, properties = batch.message, decode_properties(text)
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
