"""Pop consumption (5.x): assignments, request modes, acknowledgements. Times in ms; short wire names are
Java's own."""

# ruff: noqa: RUF012  msgspec copies an empty default for every value.
from __future__ import annotations

from typing import ClassVar, Final

from codec.bodies.base import Body, Int32, Int64
from codec.message_queue import MessageQueue

_BATCH_ACK: Final = {
    "consumer_group": "c",
    "topic": "t",
    "retry": "r",
    "start_offset": "so",
    "queue_id": "q",
    "revive_queue_id": "rq",
    "pop_time": "pt",
    "invisible_time": "it",
    "bit_set": "b",
}


class BatchAck(Body, frozen=True, rename=_BATCH_ACK):
    """Popped messages of one queue. `bit_set`: base64 of Java `BitSet.toByteArray`, bits relative to
    `start_offset`."""

    ALIASES: ClassVar[dict[str, str]] = {
        "consumerGroup": "consumer_group",
        "topic": "topic",
        "retry": "retry",
        "startOffset": "start_offset",
        "queueId": "queue_id",
        "reviveQueueId": "revive_queue_id",
        "popTime": "pop_time",
        "invisibleTime": "invisible_time",
        "bitSet": "bit_set",
    }

    consumer_group: str | None = None
    topic: str | None = None
    retry: str | None = None
    start_offset: Int64 = 0
    queue_id: Int32 = 0
    revive_queue_id: Int32 = 0
    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    bit_set: str | None = None


class BatchAckMessageRequestBody(Body, frozen=True):
    """BATCH_ACK_MESSAGE (200151)."""

    broker_name: str | None = None
    acks: list[BatchAck] = []


class QueryAssignmentRequestBody(Body, frozen=True):
    """QUERY_ASSIGNMENT (400)."""

    topic: str | None = None
    consumer_group: str | None = None
    client_id: str | None = None
    strategy_name: str | None = None
    message_model: str | None = None


class MessageQueueAssignment(Body, frozen=True):
    """`mode`: PULL, POP."""

    message_queue: MessageQueue | None = None
    mode: str | None = None
    attachments: dict[str, str] | None = None


class QueryAssignmentResponseBody(Body, frozen=True):
    """QUERY_ASSIGNMENT (400)."""

    message_queue_assignments: list[MessageQueueAssignment] = []


class SetMessageRequestModeRequestBody(Body, frozen=True):
    """SET_MESSAGE_REQUEST_MODE (401). `mode`: PULL, POP."""

    topic: str | None = None
    consumer_group: str | None = None
    mode: str | None = None
    pop_share_queue_num: Int32 = 0


class MessageRequestModeSerializeWrapper(Body, frozen=True):
    """GET_ALL_MESSAGE_REQUEST_MODE (402): topic → group → mode."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}


_CHECK_POINT: Final = {
    "start_offset": "so",
    "pop_time": "pt",
    "invisible_time": "it",
    "bit_map": "bm",
    "num": "n",
    "queue_id": "q",
    "topic": "t",
    "group": "c",
    "revive_offset": "ro",
    "queue_offset_diff": "d",
    "broker_name": "bn",
    "re_put_times": "rp",
}


class PopCheckPoint(Body, frozen=True, rename=_CHECK_POINT):
    """The body of a message of the revive topic with tag `ck`."""

    start_offset: Int64 = 0
    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    bit_map: Int32 = 0
    num: Int32 = 0
    queue_id: Int32 = 0
    topic: str | None = None
    group: str | None = None
    revive_offset: Int64 = 0
    queue_offset_diff: list[Int32] | None = None
    broker_name: str | None = None
    re_put_times: str | None = None


_ACK: Final = {
    "ack_offset": "ao",
    "start_offset": "so",
    "consumer_group": "c",
    "topic": "t",
    "queue_id": "q",
    "pop_time": "pt",
    "broker_name": "bn",
    "ack_offset_list": "aol",
}


class AckMsg(Body, frozen=True, rename=_ACK):
    """The body of a message of the revive topic with tag `ack`."""

    ack_offset: Int64 = 0
    start_offset: Int64 = 0
    consumer_group: str | None = None
    topic: str | None = None
    queue_id: Int32 = 0
    pop_time: Int64 = 0
    broker_name: str | None = None


class BatchAckMsg(AckMsg, frozen=True, rename=_ACK):
    """The body of a message of the revive topic with tag `bAck`."""

    ack_offset_list: list[Int64] = []
