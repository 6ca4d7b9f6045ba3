"""Bodies of pop consumption (5.x): assignments, request modes, acknowledgements. Times are ms."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from rmqcli.codec.bodies.base import Body, Int32, Int64
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.message_queue import MessageQueue

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
    """Popped messages of one queue; the long wire names are also read."""

    ALIASES: ClassVar[dict[str, str]] = {
        re.sub("_(.)", lambda found: found[1].upper(), name): name for name in _BATCH_ACK
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
    broker_name: str | None = None
    acks: list[BatchAck] = []


class QueryAssignmentRequestBody(Body, frozen=True):
    """The request of one member of a group; `strategy_name` is Java's name of the strategy, such as AVG."""

    topic: str = ""
    consumer_group: str = ""
    client_id: str = ""
    strategy_name: str = ""
    message_model: MessageModel | None = None


class MessageQueueAssignment(Body, frozen=True):
    """An assigned queue; `mode` is PULL or POP."""

    message_queue: MessageQueue | None = None
    mode: str | None = None
    attachments: dict[str, str] | None = None


class QueryAssignmentResponseBody(Body, frozen=True):
    """The queues of one member. None, which is not written, means that nothing is known and the member keeps
    its queues; a member without queues has an empty list.
    """

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeRequestBody(Body, frozen=True):
    """The mode of a group for a topic, PULL or POP."""

    topic: str = ""
    consumer_group: str = ""
    mode: str | None = None
    pop_share_queue_num: Int32 = 0


class MessageRequestModeSerializeWrapper(Body, frozen=True):
    """The modes of all groups: topic → group → mode. It is also the file messageRequestMode.json."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}


# Files and records.


class InFlightCheckPoint(
    Body, frozen=True, rename={"pop_time": "pt", "invisible_time": "it", "due": "du", "runs": "o"}
):
    """Messages of one queue that were popped together and are not acknowledged. `runs` are pairs: the first offset
    of a run of offsets, and their number."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    due: Int64 = 0
    runs: list[Int64] = []


class InFlightQueue(Body, frozen=True, rename={"position": "p", "committed": "c", "check_points": "ck"}):
    """The pops of one queue: the offset of the next pop, the committed offset, and the messages in flight."""

    position: Int64 = 0
    committed: Int64 = 0
    check_points: list[InFlightCheckPoint] = []


class PopInFlight(Body, frozen=True):
    """The file popInFlight.json: "topic@group" → queue id → queue."""

    in_flight: dict[str, dict[Int32, InFlightQueue]] = {}


_ORDER: Final = {
    "pop_time": "popTime",
    "invisible_time": "i",
    "offset_list": "o",
    "offset_next_visible_time": "ot",
    "offset_consumed_count": "oc",
    "last_consume_timestamp": "l",
    "commit_offset_bit": "cm",
    "attempt_id": "a",
}


class OrderInfo(Body, frozen=True, rename=_ORDER):
    """The block of a FIFO queue (Java `ConsumerOrderInfoManager.OrderInfo`): the first member of `offset_list` is an
    offset, the others are distances from it; bit N of `commit_offset_bit` is set if message N is
    acknowledged."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    offset_list: list[Int64] = []
    offset_next_visible_time: dict[Int64, Int64] = {}
    offset_consumed_count: dict[Int64, Int32] = {}
    last_consume_timestamp: Int64 = 0
    commit_offset_bit: Int64 = 0
    attempt_id: str | None = None


class ConsumerOrderInfo(Body, frozen=True):
    """The file consumerOrderInfo.json: "topic@group" → queue id → block."""

    table: dict[str, dict[Int32, OrderInfo]] = {}


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
    "distances": "d",
    "broker_name": "bn",
    "re_put_times": "rp",
}


class PopCheckPoint(Body, frozen=True, rename=_CHECK_POINT):
    """A record of Java's revive topic with tag `ck`: popped messages of one queue; bit N of `bit_map` is set if
    message N is acknowledged. Without `distances`, their offsets follow each other."""

    start_offset: Int64 = 0
    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    bit_map: Int32 = 0
    num: Int32 = 0
    queue_id: Int32 = 0
    topic: str = ""
    group: str = ""
    revive_offset: Int64 = 0
    distances: list[Int32] = []
    broker_name: str | None = None
    re_put_times: str | None = None


_ACK: Final = {
    "ack_offset": "ao",
    "start_offset": "so",
    "group": "c",
    "topic": "t",
    "queue_id": "q",
    "pop_time": "pt",
    "broker_name": "bn",
    "ack_offsets": "aol",
}


class PopAck(Body, frozen=True, rename=_ACK):
    """A record of Java's revive topic with tag `ack` or `bAck`: one acknowledged offset, or several."""

    ack_offset: Int64 = -1
    start_offset: Int64 = 0
    group: str = ""
    topic: str = ""
    queue_id: Int32 = 0
    pop_time: Int64 = 0
    broker_name: str | None = None
    ack_offsets: list[Int64] = []
