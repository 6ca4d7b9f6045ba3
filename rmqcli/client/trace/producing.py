"""Records of sends and transactions (Java `SendMessageTraceHookImpl`, `EndTransactionTraceHookImpl`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codec.message import Message, PropertyName
from rmqcli.client.namespaces import without_namespace
from rmqcli.client.results import SendResult, SendStatus
from rmqcli.client.trace.records import MessageType, Published


def message_type(message: Message) -> MessageType:
    if message.properties.get(PropertyName.TRAN_MSG) == "true":
        return MessageType.HALF
    return MessageType.DELAY if PropertyName.DELAY in message.properties else MessageType.NORMAL


def published(
    group: str, messages: Sequence[Message], result: SendResult, address: str, began_ms: int, cost: float
) -> Iterator[Published]:
    """One record per message, also of a batch; `cost` seconds are divided among them, as in Java."""
    ids, stored = result.msg_id.split(","), result.offset_msg_id.split(",")
    for place, message in enumerate(messages):
        yield Published(
            began_ms,
            result.region_id,
            without_namespace(group),
            without_namespace(message.topic),
            ids[place] if len(ids) == len(messages) else result.msg_id,
            message.tags,
            message.properties.get(PropertyName.KEYS),
            address,
            len(message.body),
            round(cost * 1000) // len(messages),
            message_type(message),
            stored[place] if len(stored) == len(messages) else result.offset_msg_id,
            result.status is SendStatus.SEND_OK,
        )
