"""Requests and results of pops."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from rmqcli.broker.filters import EVERYTHING, Wanted
from rmqcli.codec.message import MessageExt
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.receipt_handle import NORMAL, PartInfo, ReceiptHandle
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.store.record_layout import PREFIXES

_OFFSETS = PREFIXES[0].offsets
_QUEUE_OFFSET = _OFFSETS["queue_offset"]
_head = struct.Struct(f">i{_QUEUE_OFFSET - 4}xq").unpack_from
"""Size and queue offset of a record."""


class PopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that a member of a group asks for. The group exists, and the topic can be read."""

    group: str
    topic: str
    max_messages: int
    invisible_ms: int
    queue_id: int = -1
    """-1 for all read queues, from a random one on."""
    wanted: Wanted = EVERYTHING
    from_start: bool = False
    """True if a group without an offset begins at the first message; otherwise it begins at the last one,
    except in a new queue.
    """
    order: bool = False
    """FIFO: a queue lends no more messages until those already lent are acknowledged."""
    attempt_id: str | None = None
    """The attempt of a FIFO pop. A repeated attempt gets the same messages again."""


class PoppedPart:
    """The messages of one queue. `views` are their records, which must be used at once, or copied."""

    def __init__(
        self,
        topic: str,
        retry: str,
        queue_id: int,
        offsets: Sequence[int],
        views: list[memoryview],
        counts: dict[int, int] | None = None,
    ) -> None:
        self.topic = topic
        """The topic in which they are stored: the requested one, or its retry topic."""
        self.retry = retry
        self.queue_id = queue_id
        self.offsets = offsets
        self.views = views
        self.counts = counts or {}
        """FIFO: the number of earlier deliveries of each offset that had any."""

    @property
    def start_offset(self) -> int:
        return self.offsets[0]

    @cached_property
    def records(self) -> list[memoryview]:
        """The record of each offset."""
        return [record for _, record in records_of(self.views)]

    @property
    def info(self) -> PartInfo:
        """The part of a reply that identifies these messages."""
        return PartInfo(self.retry, self.queue_id, self.start_offset, self.offsets)


class PopResult:
    """Messages that a pop lends. `end` is the offset of the commit log where the last record ends, `rest` the
    number of messages that are left; `moved` is True if the position of a queue has changed."""

    def __init__(self, pop_time: int, invisible_ms: int, revive_queue: int) -> None:
        self.pop_time = pop_time
        self.invisible_ms = invisible_ms
        self.revive_queue = revive_queue
        self.rest = 0
        self.parts: list[PoppedPart] = []
        self.count = 0
        self.size = 0
        self.end = 0
        self.moved = False

    def handle(self, part: PoppedPart, offset: int, broker_name: str) -> ReceiptHandle:
        """Return the handle of one message."""
        return ReceiptHandle(
            part.start_offset,
            self.pop_time,
            self.invisible_ms,
            self.revive_queue,
            part.retry,
            broker_name,
            part.queue_id,
            offset,
        )

    def messages(self, topic: str, broker_name: str) -> Iterator[tuple[ReceiptHandle, MessageExt]]:
        """Return each message, decoded, with its handle: it is one of `topic`, even if it comes from a retry topic,
        and knows how often a FIFO queue has lent it."""
        for part in self.parts:
            for offset, record in zip(part.offsets, part.records, strict=True):
                message = decode_record(record)
                properties = message.properties
                properties.setdefault(PropertyName.FIRST_POP_TIME, str(self.pop_time))
                times = part.counts.get(offset, message.reconsume_times)
                message = replace(message, topic=topic, reconsume_times=times, broker_name=broker_name)
                yield self.handle(part, offset, broker_name), message

    @property
    def is_plain(self) -> bool:
        """True if all messages come from the topic itself."""
        return all(part.retry == NORMAL for part in self.parts)


def records_of(views: Iterable[memoryview]) -> Iterator[tuple[int, memoryview]]:
    """Return queue offset and record of each record in views of whole records."""
    for view in views:
        at, end = 0, len(view)
        while at < end:
            size, offset = _head(view, at)
            yield offset, view[at : at + size]
            at += size
