"""Batches: many messages that are stored together, with consecutive queue offsets.

To decode and encode them takes steps. A long batch is stored in parts, a part being stored at once; other
messages of its queue wait until the whole batch is stored (`ConsumeQueues.holding`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import msgspec

from broker.errors import IllegalBatch
from broker.store.batch_texts import BatchTexts
from broker.store.holds import Hold
from broker.store.values import AppendResult, Arrival, PutStatus, StoreMessage
from codec.hashing import crc32
from codec.layout import Buffer
from codec.message_batch import SMALLEST_ITEM, count_batch, walk_together
from codec.properties import decode_properties
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
TOGETHER = 16
"""Messages that are looked at together."""
PART_MESSAGES = 64
PART_BYTES = 128 * 1024
"""A part of a batch ends with the message that reaches one of these."""


BatchItem = tuple[int, bytes, bytes]
"""Flag, body and text of the properties, as sent."""
BatchRow = tuple[int, bytes, bytes, int, tuple[str, ...], int]
"""A message of a batch: flag, body, text of its properties, tags code, keys of the index, CRC of the body."""


class Batch(msgspec.Struct):
    """A batch, or a part of a long one, ready to be stored: what its messages have in common, the rest by rows,
    and the bytes of all bodies and properties. `refusal` says why it cannot be stored; `hold` is that of the
    batch on its queue.
    """

    message: StoreMessage
    rows: list[BatchRow] = []
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

    @property
    def is_full(self) -> bool:
        """True if the next message belongs into another part."""
        return self.size >= PART_BYTES or len(self.rows) >= PART_MESSAGES

    def add(self, row: BatchRow) -> None:
        """Adds a message."""
        self.rows.append(row)
        weight = len(row[2])
        self.weight += weight
        self.size += len(row[1]) + weight

    def add_all(self, rows: Sequence[BatchRow]) -> bool:
        """Adds messages if no other part is needed for any of them; False otherwise."""
        weight = sum(len(row[2]) for row in rows)
        size = self.size + weight + sum(len(row[1]) for row in rows)
        if self.is_full or size >= PART_BYTES or len(self.rows) + len(rows) > PART_MESSAGES:
            return False
        self.rows += rows
        self.weight += weight
        self.size = size
        return True

    @property
    def codes(self) -> list[int]:
        """The tags code of each message."""
        return [row[3] for row in self.rows]

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """The keys of each message, for the index."""
        return [row[4] for row in self.rows]

    def messages(self) -> Iterator[StoreMessage]:
        """The messages, each made when it is asked for: storing them needs none."""
        common = self.message
        for flag, body, text, code, _, _ in self.rows:
            yield StoreMessage(
                common.topic,
                common.queue_id,
                body,
                decode_properties(text),
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

    def records(
        self, encoder: RecordEncoder, topic: bytes, queue_offset: int, begin: int, timestamp: int
    ) -> tuple[bytes, list[int]]:
        """The records, stored from an offset of the queue and of the log on, and the size of each."""
        common = self.message
        flags, bodies, texts, _, _, crcs = zip(*self.rows, strict=True)
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
            flags,
            bodies,
            texts,
            crcs,
        )


class StoredBatch(NamedTuple):
    """A part of a batch that was stored: the offset of each record, and its size, from a queue offset on."""

    batch: Batch
    offsets: Sequence[int]
    sizes: Sequence[int]
    queue_offset: int
    timestamp: int

    def arrivals(self) -> Iterator[Arrival]:
        """The arrivals, each made when it is asked for."""
        places = zip(self.offsets, self.sizes, strict=True)
        for number, (message, (offset, size)) in enumerate(
            zip(self.batch.messages(), places, strict=True), self.queue_offset
        ):
            yield message, AppendResult(PutStatus.PUT_OK, offset, size, number, self.timestamp)


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
    texts, in_step = BatchTexts(message.properties_text), 0
    for items in walk_together(message.body, TOGETHER):
        while items:
            rows = _alike(items, texts)
            if rows is not None and parts and parts[-1].add_all(rows):
                yield
                break
            taken = rows or [_row(items[0], texts)]
            del items[: len(taken)]
            for row in taken:
                weight = len(row[2])
                if weight > MAX_PROPERTIES_BYTES:
                    return [_refused(message, PutStatus.PROPERTIES_SIZE_EXCEEDED)]
                if not parts or parts[-1].is_full:
                    parts.append(Batch(message))
                parts[-1].add(row)
                in_step += MESSAGE_BYTES + weight
                if in_step >= STEP_BYTES:
                    in_step = 0
                    yield
    return parts or [_refused(message, PutStatus.MESSAGE_ILLEGAL)]


def _alike(items: list[BatchItem], texts: BatchTexts) -> list[BatchRow] | None:
    """The rows of items whose texts are alike; None if one of them is not."""
    flags, bodies, owns = zip(*items, strict=True)
    read = texts.read_alike(owns)
    return (
        None
        if read is None
        else [
            (flag, body, text, code, properties, crc32(body))
            for flag, body, (text, code, properties) in zip(flags, bodies, read, strict=True)
        ]
    )


def _row(item: BatchItem, texts: BatchTexts) -> BatchRow:
    """The row of any item. IllegalBatch, LocalProtocolError."""
    flag, body, own = item
    return flag, body, *texts.read(own), crc32(body)


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
