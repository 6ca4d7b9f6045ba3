"""Tables of offsets: committed, delay levels, locks, resets (queue offsets: entries, not bytes).

`ConsumerOffsetSerializeWrapper`, `DelayOffsetSerializeWrapper` and `OffsetSerializeWrapper` are also the
files consumerOffset.json, delayOffset.json, and a broadcasting consumer's offsets.json.
"""

from __future__ import annotations

import msgspec

from rmqcli.codec.bodies.base import Body, Int32, Int64
from rmqcli.codec.bodies.config import DataVersion
from rmqcli.codec.message_queue import MessageQueue


class ConsumerOffsetSerializeWrapper(Body, frozen=True):
    """Committed offsets: "topic@group" → queue id → offset."""

    offset_table: dict[str, dict[Int32, Int64]] = {}
    data_version: DataVersion | None = None


class DelayOffsetSerializeWrapper(Body, frozen=True):
    """The next offset in the queue of each delay level (from 1)."""

    offset_table: dict[Int32, Int64] = {}
    data_version: DataVersion | None = None


class OffsetSerializeWrapper(Body, frozen=True):
    """The offsets of a broadcasting consumer (Java `LocalFileOffsetStore`)."""

    offset_table: dict[MessageQueue, Int64] = {}


class LockBatchRequestBody(Body, frozen=True):
    consumer_group: str | None = None
    client_id: str | None = None
    mq_set: list[MessageQueue] = []
    only_this_broker: bool | None = None


class UnlockBatchRequestBody(LockBatchRequestBody, frozen=True):
    """The queues to unlock."""


class LockBatchResponseBody(Body, frozen=True):
    """The queues that are locked now."""

    lock_ok_mq_set: list[MessageQueue] = msgspec.field(default_factory=list, name="lockOKMQSet")


class QueryCorrectionOffsetBody(Body, frozen=True):
    """Offsets by queue id."""

    correction_offsets: dict[Int32, Int64] = {}


class ResetOffsetBody(Body, frozen=True):
    """The new offset of each queue. The Go client reads those of code 220 in the FASTJSON dialect only."""

    offset_table: dict[MessageQueue, Int64] = {}


class MessageQueueForC(Body, frozen=True):
    """A queue and its offset."""

    topic: str
    broker_name: str
    queue_id: Int32 = 0
    offset: Int64 = 0


class ResetOffsetBodyForC(Body, frozen=True):
    """The new offsets (220) for clients whose language is CPP."""

    offset_table: list[MessageQueueForC] = []


class GetConsumerStatusBody(Body, frozen=True):
    """Offsets that clients have: those of the receiver (221, first table), or those of each client id (223,
    second).
    """

    message_queue_table: dict[MessageQueue, Int64] = {}
    consumer_table: dict[str, dict[MessageQueue, Int64]] = {}


class OffsetMovedEvent(Body, frozen=True):
    """The body of a message in the topic OFFSET_MOVED_EVENT."""

    consumer_group: str | None = None
    message_queue: MessageQueue | None = None
    offset_request: Int64 = 0
    offset_new: Int64 = 0
