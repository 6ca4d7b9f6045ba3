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
    """The modes of all groups: topic → group → mode."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}
