r"""Trace records as text: fields separated by \x01, records ended by \x02 (Java `TraceDataEncoder`).

Timestamps are epoch ms, costs ms. A missing string is written as `null`, as in Java. A reader skips damaged
records and those of unknown types (5.x has `Recall`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from rmqcli.client.identity import without_namespace
from rmqcli.client.results import SendResult, SendStatus
from rmqcli.codec.message import Message, PropertyName

FIELD = "\x01"
RECORD = "\x02"
NULL = "null"


class MessageType(IntEnum):
    """Message types, in the order of Java's `MessageType`."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3


class ContextCode(IntEnum):
    """The result of a listener call (Java `ConsumeReturnType`, by ordinal)."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


class Published(NamedTuple):
    """`Pub`: an acknowledged send. `store_host` is the address of the broker."""

    timestamp: int
    region: str | None
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: str | None
    store_host: str
    body_length: int
    cost: int
    message_type: MessageType
    offset_msg_id: str | None
    success: bool


class ConsumeStart(NamedTuple):
    """`SubBefore`: a listener received the message. `request_id` is that of the matching ConsumeEnd."""

    timestamp: int
    region: str | None
    group: str
    request_id: str
    msg_id: str
    retry_times: int
    keys: str | None


class ConsumeEnd(NamedTuple):
    """`SubAfter`: a listener returned. Old clients write neither time nor group."""

    request_id: str
    msg_id: str
    cost: int
    success: bool
    keys: str | None
    context_code: ContextCode = ContextCode.SUCCESS
    timestamp: int | None = None
    group: str | None = None


class TransactionEnd(NamedTuple):
    """`EndTransaction`: the outcome of a half message, COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""

    timestamp: int
    region: str | None
    group: str
    topic: str
    msg_id: str
    tags: str | None
    keys: str | None
    store_host: str
    message_type: MessageType
    transaction_id: str | None
    state: str
    from_check: bool


TraceRecord = Published | ConsumeStart | ConsumeEnd | TransactionEnd

_NAMES: dict[type[TraceRecord], str] = {
    Published: "Pub",
    ConsumeStart: "SubBefore",
    ConsumeEnd: "SubAfter",
    TransactionEnd: "EndTransaction",
}


def message_type(message: Message) -> MessageType:
    if message.properties.get(PropertyName.TRAN_MSG) == "true":
        return MessageType.HALF
    return MessageType.DELAY if PropertyName.DELAY in message.properties else MessageType.NORMAL


def published(
    group: str, messages: Sequence[Message], result: SendResult, address: str, began_ms: int, cost: float
) -> Iterator[Published]:
    """Yield one record per message, also for a batch. `cost` seconds are divided among them, as in Java."""
    ids, stored = result.msg_id.split(","), result.offset_msg_id.split(",")
    for number, message in enumerate(messages):
        yield Published(
            began_ms,
            result.region_id,
            without_namespace(group),
            without_namespace(message.topic),
            ids[number] if len(ids) == len(messages) else result.msg_id,
            message.tags,
            message.properties.get(PropertyName.KEYS),
            address,
            len(message.body),
            round(cost * 1000) // len(messages),
            message_type(message),
            stored[number] if len(stored) == len(messages) else result.offset_msg_id,
            result.status is SendStatus.SEND_OK,
        )


def encode_record(record: TraceRecord) -> str:
    return FIELD.join([_NAMES[type(record)], *map(_text, record)]) + RECORD


def decode_trace(text: str) -> list[TraceRecord]:
    """Return the records of the body of a trace message, in order."""
    found = []
    for part in text.split(RECORD):
        name, *fields = part.split(FIELD)
        read = _READERS.get(name)
        try:
            found += [read(fields)] if read is not None else []
        except (ValueError, IndexError):
            continue
    return found


def _text(value: object) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    # A property may contain \x01, which would end the field.
    return str(value).replace(FIELD, " ").replace(RECORD, " ")


def _none(text: str) -> str | None:
    return None if text in {NULL, ""} else text


def _true(text: str) -> bool:
    return text.lower() == "true"


def _sent(f: list[str]) -> tuple[int, str | None, str, str, str, str | None, str | None, str]:
    """Return the first eight fields, which Pub and EndTransaction share."""
    return int(f[0]), _none(f[1]), f[2], f[3], f[4], _none(f[5]), _none(f[6]), f[7]


def _published(f: list[str]) -> Published:
    """Read 12 fields (without an offset id), 13, or 14 (older clients append their address)."""
    offset_id, success = (None, f[11]) if len(f) == 12 else (_none(f[11]), f[12])
    kind = MessageType(int(f[10]))
    return Published(*_sent(f), int(f[8]), int(f[9]), kind, offset_id, _true(success))


def _start(f: list[str]) -> ConsumeStart:
    return ConsumeStart(int(f[0]), _none(f[1]), f[2], f[3], f[4], int(f[5]), _none(f[6]))


def _end(f: list[str]) -> ConsumeEnd:
    code = ContextCode(int(f[5])) if len(f) > 5 else ContextCode.SUCCESS
    timestamp, group = (_none(f[6]), _none(f[7])) if len(f) > 7 else (None, None)
    stored = None if timestamp is None else int(timestamp)
    return ConsumeEnd(f[0], f[1], int(f[2]), _true(f[3]), _none(f[4]), code, stored, group)


def _transaction(f: list[str]) -> TransactionEnd:
    return TransactionEnd(*_sent(f), MessageType(int(f[8])), _none(f[9]), f[10], _true(f[11]))


_READERS: dict[str, Callable[[list[str]], TraceRecord]] = {
    "Pub": _published,
    "SubBefore": _start,
    "SubAfter": _end,
    "EndTransaction": _transaction,
}
