"""Preparation of messages: check of names, UNIQ_KEY, compression of the body, properties as text.

Limits (message.md): body MAX_MESSAGE_SIZE before compression, properties 32767 bytes. Bodies of
COMPRESS_IN_THREAD bytes and more are compressed in a worker thread, so that a large message does not delay
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import maxsize

import msgspec
import trio

from codec.codes import MessageSysFlag
from codec.compression import compress
from codec.core.pairs import write_pairs
from codec.errors import LocalProtocolError
from codec.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from codec.message import RETRY_PREFIX, Message, PropertyName, check_topic
from codec.operations.messages import SEND_BATCH_MESSAGE, SEND_MESSAGE_V2, SEND_REPLY_MESSAGE_V2
from codec.operations.operation import Operation
from codec.properties import (
    MAX_PROPERTIES_LENGTH,
    REPLY_TYPE,
    encode_properties,
)
from rmqcli.client.errors import InvalidRequest, valid

MAX_MESSAGE_SIZE = 4 * 1024 * 1024
COMPRESS_OVER = 4096
COMPRESS_LEVEL = 5
COMPRESS_LEVELS = range(1, 10)
COMPRESS_IN_THREAD = 64 * 1024
COMPRESSIONS = ("zlib", "lz4", "zstd")
UNIQ_KEY, TRAN_MSG, MSG_TYPE = PropertyName.UNIQ_KEY, PropertyName.TRAN_MSG, PropertyName.MSG_TYPE

Packed = tuple[bytes, int]
"""A compressed body, and the bits of the sys flag that say so."""
SendOperation = Operation[SendMessageRequestHeaderV2, SendMessageResponseHeader, bytes, None]


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """The parts of a send request from a message. `msg_id`: the UNIQ_KEY, comma-joined for a batch."""

    topic: str
    body: bytes
    flag: int
    properties: str
    sys_flag: int
    msg_id: str
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    batch: bool = False
    reply: bool = False
    is_plain: bool = False
    """True if all fields but topic, body, properties and id have their defaults."""

    @property
    def operation(self) -> SendOperation:
        if self.reply:
            return SEND_REPLY_MESSAGE_V2
        return SEND_BATCH_MESSAGE if self.batch else SEND_MESSAGE_V2


class Preparer:
    """Creates Outgoing messages; `next_id` returns unique ids."""

    def __init__(
        self,
        next_id: Callable[[], str],
        *,
        compress_over: int = COMPRESS_OVER,
        compression: str | None = "zlib",
        compress_level: int = COMPRESS_LEVEL,
        max_message_size: int = MAX_MESSAGE_SIZE,
        allow_empty: bool = False,
    ) -> None:
        if compress_level not in COMPRESS_LEVELS:
            low, high = COMPRESS_LEVELS[0], COMPRESS_LEVELS[-1]
            raise InvalidRequest(f"compress_level is {compress_level}, out of range [{low}, {high}]")
        if compression is not None and compression not in COMPRESSIONS:
            raise InvalidRequest(
                f"unknown compression {compression!r}: one of {', '.join(COMPRESSIONS)} is expected"
            )
        self._next_id = next_id
        self.compress_over = maxsize if compression is None else compress_over
        self._compression = compression or ""
        self._level = compress_level
        self.max_message_size = max_message_size
        self._allow_empty = allow_empty
        self._checked: set[str] = set()

    async def packed(self, message: Message) -> Packed:
        """Return the compressed body of a message of `compress_over` bytes or more. Raises InvalidRequest."""
        self.check(message)
        body, kind = message.body, self._compression
        if len(body) < COMPRESS_IN_THREAD:
            return compress(body, kind, self._level)
        return await trio.to_thread.run_sync(compress, body, kind, self._level)

    def single(self, message: Message, packed: Packed | None = None) -> Outgoing:
        """Prepare one message, whose body is `packed` if it is long. Raises InvalidRequest when it breaks a
        limit or has an invalid name.
        """
        topic, body = message.topic, message.body
        if topic not in self._checked or not 0 < len(body) <= self.max_message_size:
            self.check(message)
        properties = message.properties
        given_id = properties.get(UNIQ_KEY)
        msg_id = given_id or self._next_id()
        sys_flag = 0
        if packed is not None:
            body, sys_flag = packed
        if properties.get(TRAN_MSG) == "true":
            sys_flag |= MessageSysFlag.TRANSACTION_PREPARED
        times, maximum = 0, None
        if topic.startswith(RETRY_PREFIX):
            properties = dict(properties)
            times, maximum = _retry_counts(properties)
        text = properties_text(properties) if given_id else properties_text(properties, msg_id)
        reply = properties.get(MSG_TYPE) == REPLY_TYPE
        flag = message.flag
        is_plain = not (sys_flag or flag or times or reply) and maximum is None
        return Outgoing(topic, body, flag, text, sys_flag, msg_id, times, maximum, False, reply, is_plain)

    def identified(self, message: Message) -> Message:
        if message.uniq_key:
            return message
        return message.with_properties({PropertyName.UNIQ_KEY: self._next_id()})

    def check(self, message: Message) -> None:
        """Raise InvalidRequest for an invalid topic or size of the body."""
        topic = message.topic
        if topic not in self._checked:
            valid(check_topic, topic)
            self._checked.add(topic)
        if not message.body and not self._allow_empty:
            raise InvalidRequest(
                f"message to {topic} has an empty body, which RocketMQ's consumers cannot read"
            )
        if len(message.body) > self.max_message_size:
            size = len(message.body)
            raise InvalidRequest(
                f"message to {topic} has a body of {size} bytes, more than {self.max_message_size}"
            )


def properties_bytes(properties: Mapping[str, str]) -> bytes:
    """Encode properties. Raises InvalidRequest over the limit, and for what readers would not find again: a
    property without a name or a value, or with a separator in it.
    """
    if "" in properties or "" in properties.values():
        name = next(name for name, value in properties.items() if not (name and value))
        raise InvalidRequest(f"property {name!r} has no value" if name else "a property has no name")
    try:
        data = encode_properties(properties)
    except LocalProtocolError as error:
        raise InvalidRequest(str(error)) from error
    if properties and data.count(2) != len(properties) - 1:
        raise InvalidRequest("a property holds the character U+0002, which separates properties")
    return data


def properties_text(properties: dict[str, str], uniq_key: str = "") -> str:
    """Return the text of `properties_bytes`, with a UNIQ_KEY if one is given; most properties are ASCII, and
    written in half a microsecond.
    """
    try:
        text = write_pairs(properties, UNIQ_KEY, uniq_key) if uniq_key else write_pairs(properties)
    except TypeError:  # a value that is not a text, whose text is sent
        text = ""
    if text.isascii() and 0 < len(text) <= MAX_PROPERTIES_LENGTH:
        return text
    whole = {**properties, UNIQ_KEY: uniq_key} if uniq_key else properties
    return properties_bytes(whole).decode()


def _retry_counts(properties: dict[str, str]) -> tuple[int, int | None]:
    """Remove RECONSUME_TIME and MAX_RECONSUME_TIMES, which a message to a retry topic has in its header."""
    times = properties.pop(PropertyName.RECONSUME_TIME, None)
    maximum = properties.pop(PropertyName.MAX_RECONSUME_TIMES, None)
    try:
        return int(times or 0), None if maximum is None else int(maximum)
    except ValueError:
        raise InvalidRequest(
            f"RECONSUME_TIME {times!r} or MAX_RECONSUME_TIMES {maximum!r} is not a number"
        ) from None
