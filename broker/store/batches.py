"""Batches: many messages that are stored together, with consecutive queue offsets.

To decode and encode them takes steps. A long batch is stored in parts, a part being stored at once; other
messages of its queue wait until the whole batch is stored (`ConsumeQueues.holding`).
"""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from broker.errors import IllegalBatch
from broker.store.batch_texts import BatchTexts
from broker.store.holds import Hold
from broker.store.values import AppendResult, PutStatus, StoreMessage
from codec.hashing import CRC_BITS, crc32_whole
from codec.layout import Buffer
from codec.message_batch import SMALLEST_ITEM, count_batch, walk_batch
from codec.store.record_encoder import RecordEncoder

MOST_MESSAGES = 32768
"""More than fit in 4 MiB of records as Java's clients send them."""
STEP_BYTES = 1024
"""Bytes of properties that are read in a step; a message counts as `MESSAGE_BYTES` more."""
MESSAGE_BYTES = 256
COUNTED_PER_STEP = 64
MAX_PROPERTIES_BYTES = 32767
LONG_PROPERTIES = 2048
"""Bytes of properties of a message; the index items of longer ones are added later, in steps."""
PART_PROPERTIES = 4 * LONG_PROPERTIES
"""The same for all messages of a part."""
PART_MESSAGES = 64
PART_BYTES = 128 * 1024
"""A part of a batch ends with the message that reaches one of these."""


class Batch(msgspec.Struct):
    """A batch, or a part of a long one, ready to be stored: its messages, the CRC of each body, and the bytes of
    all bodies and properties. `refusal` says why it cannot be stored; `hold` is that of the batch on its
    queue.
    """

    message: StoreMessage
    items: list[StoreMessage] = []
    crcs: list[int] = []
    size: int = 0
    weight: int = 0
    """Bytes of properties, whose keys become index items."""
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

    def add(self, flag: int, body: bytes, text: bytes, code: int, properties: dict[str, str]) -> bool:
        """Adds a message, with the tags code and the properties of a text. True if the part is full: the next
        message belongs into another one."""
        common, items = self.message, self.items
        items.append(
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
                code,
                common.wait_store,
            )
        )
        self.crcs.append(crc32_whole(body) & CRC_BITS)
        weight = len(text)
        self.weight += weight
        self.size = size = self.size + len(body) + weight
        return size >= PART_BYTES or len(items) >= PART_MESSAGES

    def records(
        self, encoder: RecordEncoder, topic: bytes, queue_offset: int, begin: int, timestamp: int
    ) -> tuple[bytes, list[int]]:
        """The records, stored from an offset of the queue and of the log on, and the size of each."""
        common = self.message
        items = (
            (item.flag, item.body, item.properties_text, crc)
            for item, crc in zip(self.items, self.crcs, strict=True)
        )
        return encoder.run(
            topic,
            common.queue_id,
            queue_offset,
            begin,
            common.sys_flag,
            common.born_timestamp,
            common.born_host,
            timestamp,
            common.reconsume_times,
            common.prepared_transaction_offset,
            items,
        )


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
    _check_numbers(message, topic, encoder)
    parts: list[Batch] = []
    part, is_full, in_step = Batch(message), True, 0
    read = BatchTexts(message.properties_text).read
    for flag, body, own in walk_batch(message.body):
        text, code, properties = read(own)
        weight = len(text)
        if weight > MAX_PROPERTIES_BYTES:
            return [_refused(message, PutStatus.PROPERTIES_SIZE_EXCEEDED)]
        if is_full:
            part = Batch(message)
            parts.append(part)
        is_full = part.add(flag, body, text, code, properties)
        in_step += MESSAGE_BYTES + weight
        if in_step >= STEP_BYTES:
            in_step = 0
            yield
    return parts or [_refused(message, PutStatus.MESSAGE_ILLEGAL)]


def _refused(message: StoreMessage, status: PutStatus) -> Batch:
    return Batch(message, refusal=AppendResult(status))


def _check_count(body: Buffer) -> Generator[None, None, None]:
    """IllegalBatch for too many items, before memory is spent on any."""
    if len(body) <= MOST_MESSAGES * SMALLEST_ITEM:
        return
    for number in count_batch(body):
        if number > MOST_MESSAGES:
            raise IllegalBatch(f"a batch has {MOST_MESSAGES} messages at most")
        if number % COUNTED_PER_STEP == 0:
            yield


def _check_numbers(message: StoreMessage, topic: bytes, encoder: RecordEncoder) -> None:
    """CodecError if what all records share does not fit them."""
    encoder.pieces(
        topic,
        message.queue_id,
        0,
        0,
        0,
        message.sys_flag,
        message.born_timestamp,
        message.born_host,
        0,
        message.reconsume_times,
        message.prepared_transaction_offset,
        b"",
        b"",
    )
