"""Batches: many messages that are stored together, with consecutive queue offsets.

The items of a batch are checked in steps. A long batch is stored in parts, so that other clients are served
in between; other messages of its queue wait until the whole batch is stored (`ConsumeQueues.holding`).
"""

from __future__ import annotations

from collections.abc import Generator

import msgspec
import trio

from rmqcli.broker.errors import IllegalBatch, NotReady
from rmqcli.broker.store.values import AppendResult, PutStatus, StoreMessage
from rmqcli.codec.batch_item import SMALLEST_ITEM
from rmqcli.codec.core.batch import Part, count_items
from rmqcli.codec.core.record_writer import QueueRun, Run
from rmqcli.codec.properties import decode_properties, sound_text
from rmqcli.codec.property_names import MAX_PROPERTIES_LENGTH, TIMERS


class Hold:
    """The reservation of a queue by a long batch, until `end`. Other messages of the queue wait for that."""

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended = trio.Event()

    def end(self) -> None:
        self._ended.set()

    def require_end(self) -> None:
        """Raise NotReady for a message that has to be stored after those of the batch."""
        raise NotReady(self.ended, in_order=True)

    async def ended(self) -> None:
        """Return once the hold has ended."""
        await self._ended.wait()


MOST_MESSAGES = 32768
"""Maximum number of messages of a batch: more than fit into 4 MiB as Java's clients encode them."""
STEP_BYTES = 4096
"""Bytes of a batch that are read in one step."""
COUNTED_PER_STEP = 512
LONG_PROPERTIES = 2048
"""Bytes of properties of a message beyond which its index items are added later, in steps."""
PART_PROPERTIES = 4 * LONG_PROPERTIES
"""The same limit for all messages of a part together."""
PART_MESSAGES = 64
PART_BYTES = 128 * 1024
"""A part of a batch ends with the message that reaches one of these limits."""


class Batch(msgspec.Struct):
    """A batch, or a part of a long one, ready to be stored: the fields its messages share, and its items.

    `refusal` is the result if it cannot be stored; `hold` is the batch's reservation of its queue.
    """

    message: StoreMessage
    part: Part
    refusal: AppendResult | None = None
    hold: Hold | None = None

    def __len__(self) -> int:
        """Return the number of messages."""
        return self.part.count

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def queue_id(self) -> int:
        return self.message.queue_id

    @property
    def is_long(self) -> bool:
        """True if its index items are added later."""
        return self.part.weight > PART_PROPERTIES

    def store(self, run: Run, queue: QueueRun) -> None:
        """Add the messages to a run and to the run of their queue. Raises LocalProtocolError."""
        common = self.message
        self.part.store(
            run,
            queue,
            common.sys_flag,
            common.born_timestamp,
            common.born_host,
            common.reconsume_times,
            common.prepared_transaction_offset,
        )


def prepare_batch(message: StoreMessage, max_body: int, seed: int) -> Generator[None, None, list[Batch]]:
    """Return the parts of a batch in order, with their items checked. A refused batch has one part.

    Each message has its own properties, followed by those of the whole batch. Of properties that do not
    parse, the pairs that Java reads are stored. Yields after every step. Raises IllegalBatch or CodecError.
    `seed` is the `index_seed` of the topic.
    """
    data, common = bytes(message.body), message.properties_text
    if not data or len(data) > max_body:
        return [_refused(message, PutStatus.MESSAGE_ILLEGAL)]
    if len(common) > MAX_PROPERTIES_LENGTH:
        return [_refused(message, PutStatus.PROPERTIES_SIZE_EXCEEDED)]
    yield from _check_count(data)
    parts = [Batch(message, Part(data, common, 0, seed))]
    part = parts[0].part
    while part.end < len(data):
        if part.count >= PART_MESSAGES or part.size >= PART_BYTES:
            part = Part(data, common, part.end, seed)
            parts.append(Batch(message, part))
        if part.read(PART_MESSAGES, PART_BYTES, STEP_BYTES):
            text = part.next_text()
            if len(text) > MAX_PROPERTIES_LENGTH:
                return [_refused(message, PutStatus.PROPERTIES_SIZE_EXCEEDED)]
            part.take(_mended(text))
        yield
    return parts


def _mended(text: bytes) -> bytes:
    """Return the part of malformed properties that is stored. Raises IllegalBatch if they have a timer."""
    properties = decode_properties(text)
    if not TIMERS.isdisjoint(properties):
        name = min(TIMERS & properties.keys())
        raise IllegalBatch(f"a message of a batch has the property {name}: send it alone")
    return sound_text(text, properties)


def _refused(message: StoreMessage, status: PutStatus) -> Batch:
    return Batch(message, Part(b"", b"", 0, 0), refusal=AppendResult(status))


def _check_count(data: bytes) -> Generator[None, None, None]:
    """Raise IllegalBatch for too many items, before any memory is spent on them, and BodyError for a
    malformed item."""
    if len(data) <= MOST_MESSAGES * SMALLEST_ITEM:
        return
    number = end = 0
    while end < len(data):
        count, end = count_items(data, end, COUNTED_PER_STEP)
        number += count
        if number > MOST_MESSAGES:
            raise IllegalBatch(f"a batch has {MOST_MESSAGES} messages at most")
        yield
