"""Batches: many messages that are stored together, with consecutive queue offsets.

To decode and encode them takes steps. A long batch is stored in parts, a part being stored at once; other
messages of its queue wait until the whole batch is stored (`ConsumeQueues.holding`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import msgspec

from broker.errors import IllegalBatch
from broker.store.batch_texts import texts_of
from broker.store.holds import Hold
from broker.store.values import AppendResult, Arrival, PutStatus, StoreMessage
from codec.hashing import crc32_of_each
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
TOGETHER = 32
"""Messages that are looked at together."""
PART_MESSAGES = 64
PART_BYTES = 128 * 1024
"""A part of a batch ends with the message that reaches one of these."""


class Rows(NamedTuple):
    """Messages of a batch by columns: flags, bodies, texts of their properties, tags codes, hashes of the keys
    of the index, one message after the other (None: they are not known), how many each has, CRCs of bodies."""

    flags: Sequence[int]
    bodies: Sequence[bytes]
    texts: Sequence[bytes]
    codes: Sequence[int]
    hashes: Sequence[int] | None
    counts: Sequence[int]
    crcs: Sequence[int]

    def one(self, number: int) -> Rows:
        """One of the messages."""
        row = slice(number, number + 1)
        first = sum(self.counts[:number])
        return Rows(
            self.flags[row],
            self.bodies[row],
            self.texts[row],
            self.codes[row],
            None if self.hashes is None else self.hashes[first : first + self.counts[number]],
            self.counts[row],
            self.crcs[row],
        )


class Batch(msgspec.Struct):
    """A batch, or a part of a long one, ready to be stored: what its messages have in common, the rest by
    columns (see `Rows`), and the bytes of all bodies and properties. `refusal` says why it cannot be stored;
    `hold` is that of the batch on its queue.
    """

    message: StoreMessage
    flags: list[int] = []
    bodies: list[bytes] = []
    texts: list[bytes] = []
    codes: list[int] = []
    hashes: list[int] = []
    counts: list[int] = []
    has_hashes: bool = True
    crcs: list[int] = []
    size: int = 0
    weight: int = 0
    """Bytes of properties, whose keys become index items."""
    refusal: AppendResult | None = None
    hold: Hold | None = None

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.flags)

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def queue_id(self) -> int:
        return self.message.queue_id

    @property
    def is_long(self) -> bool:
        """True when its index items are added later."""
        return self.weight > PART_PROPERTIES or not self.has_hashes

    @property
    def is_full(self) -> bool:
        """True if the next message belongs into another part."""
        return self.size >= PART_BYTES or len(self) >= PART_MESSAGES

    def add(self, rows: Rows, *, may_fill: bool = True) -> bool:
        """Adds messages; with `may_fill=False` only if no other part is needed for any of them."""
        weight = sum(map(len, rows.texts))
        size = self.size + weight + sum(map(len, rows.bodies))
        if not may_fill and (size >= PART_BYTES or len(self) + len(rows.flags) > PART_MESSAGES):
            return False
        self.flags += rows.flags
        self.bodies += rows.bodies
        self.texts += rows.texts
        self.codes += rows.codes
        if rows.hashes is None:
            self.has_hashes = False
        else:
            self.hashes += rows.hashes
            self.counts += rows.counts
        self.crcs += rows.crcs
        self.weight += weight
        self.size = size
        return True

    def messages(self) -> Iterator[StoreMessage]:
        """The messages, each made when it is asked for: storing them needs none."""
        common = self.message
        for flag, body, text, code in zip(self.flags, self.bodies, self.texts, self.codes, strict=True):
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
            self.flags,
            self.bodies,
            self.texts,
            self.crcs,
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
    texts, in_step = texts_of(message.properties_text), 0
    name = message.topic
    for flags, bodies, owns in walk_together(message.body, TOGETHER):
        start = 0
        while start < len(owns):
            read = texts.read_alike(owns[start:] if start else owns, name)
            end = start + 1 if read is None else len(owns)
            rows = Rows(
                flags[start:end],
                bodies[start:end],
                *(read or texts.read_one(owns[start], name)),
                crc32_of_each(bodies[start:end]),
            )
            start, weight = end, max(map(len, rows.texts))
            if weight > MAX_PROPERTIES_BYTES:
                return [_refused(message, PutStatus.PROPERTIES_SIZE_EXCEEDED)]
            _add(rows, parts, message)
            in_step += STEP_BYTES if read is not None else MESSAGE_BYTES + weight
            if in_step >= STEP_BYTES:
                in_step = 0
                yield
    return parts or [_refused(message, PutStatus.MESSAGE_ILLEGAL)]


def _add(rows: Rows, parts: list[Batch], message: StoreMessage) -> None:
    """Adds messages to the last part, and to further ones when it is full."""
    if not parts or parts[-1].is_full:
        parts.append(Batch(message))
    if parts[-1].add(rows, may_fill=False):
        return
    for number in range(len(rows.flags)):
        if parts[-1].is_full:
            parts.append(Batch(message))
        parts[-1].add(rows.one(number))


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
