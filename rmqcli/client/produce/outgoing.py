"""Preparation of messages: checking of names, UNIQ_KEY, compression of the body, properties as text.

Limits (message.md): bodies MAX_MESSAGE_SIZE before compression, properties 32767 bytes. Bodies of
COMPRESS_IN_THREAD bytes or more are compressed in a worker thread, so that a large message does not delay
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import maxsize

import msgspec
import trio

from rmqcli.client.errors import InvalidRequest, valid
from rmqcli.client.instance import ClientInstance
from rmqcli.client.wire.detached import in_task
from rmqcli.client.wire.requests import request_of
from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.compression import compress
from rmqcli.codec.core.property_pairs import write_pairs
from rmqcli.codec.errors import LocalProtocolError, MissingLibrary
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rmqcli.codec.message import RETRY_PREFIX, Message, PropertyName, SystemTopic, check_topic
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.messages import SEND_BATCH_MESSAGE, SEND_MESSAGE_V2, SEND_REPLY_MESSAGE_V2
from rmqcli.codec.operations.operation import Operation
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.property_names import MAX_PROPERTIES_LENGTH, REPLY_TYPE, TIMERS
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.reply_head import SendRequest, SendTemplate

# The defaults of Java's producer: maxMessageSize, compressMsgBodyOverHowmuch, compressLevel.
MAX_MESSAGE_SIZE = 4 * 1024 * 1024
COMPRESS_OVER = 4096
COMPRESS_LEVEL = 5
COMPRESS_LEVELS = range(1, 10)
COMPRESS_IN_THREAD = 64 * 1024
COMPRESSIONS = ("zlib", "lz4", "zstd")
UNIQ_KEY, TRAN_MSG, MSG_TYPE = PropertyName.UNIQ_KEY, PropertyName.TRAN_MSG, PropertyName.MSG_TYPE

Packed = tuple[bytes, int]
"""A compressed body, and the bits of the sys flag that name the compression."""
SendOperation = Operation[SendMessageRequestHeaderV2, SendMessageResponseHeader, bytes, None]


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """The parts of a send request that come from a message.

    `msg_id`: the UNIQ_KEY, comma-joined for a batch.
    """

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
        # No body is as long as maxsize, so that one comparison also covers compression being off.
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
        try:
            if len(body) < COMPRESS_IN_THREAD:
                return compress(body, kind, self._level)
            await in_task()
            return await trio.to_thread.run_sync(compress, body, kind, self._level)
        except MissingLibrary as error:
            raise InvalidRequest(f"compression {kind}: {error}") from error

    def single(self, message: Message, packed: Packed | None = None) -> Outgoing:
        """Prepare one message; `packed` is its compressed body, if any.

        Raises InvalidRequest if the message exceeds a limit or has an invalid name.
        """
        topic, body = message.topic, message.body
        # In line with `check`, and without a call for a valid message.
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
            # A copy, because the counts are removed from it.
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
        """Raise InvalidRequest for an invalid topic or an invalid body size."""
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
    """Encode properties.

    Raises InvalidRequest above the limit, and for properties that could not be read back.

    Those have no name or no value, or contain a separator.
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
    if properties and data.count(1) != len(properties) and any("\x01" in name for name in properties):
        raise InvalidRequest("the name of a property holds the character U+0001, which ends names")
    return data


def properties_text(properties: dict[str, str], uniq_key: str = "") -> str:
    """Return the text of `properties_bytes`, with a UNIQ_KEY if one is given.

    Most properties are ASCII and are written in half a microsecond.
    """
    try:
        text = write_pairs(properties, UNIQ_KEY, uniq_key) if uniq_key else write_pairs(properties)
    except TypeError:  # a value that is not a string; its text is sent
        text = ""
    if text.isascii() and 0 < len(text) <= MAX_PROPERTIES_LENGTH:
        return text
    whole = {**properties, UNIQ_KEY: uniq_key} if uniq_key else properties
    return properties_bytes(whole).decode()


def _retry_counts(properties: dict[str, str]) -> tuple[int, int | None]:
    """Remove RECONSUME_TIME and MAX_RECONSUME_TIMES, which are in the header of a message to a retry
    topic.
    """
    times = properties.pop(PropertyName.RECONSUME_TIME, None)
    maximum = properties.pop(PropertyName.MAX_RECONSUME_TIMES, None)
    try:
        return int(times or 0), None if maximum is None else int(maximum)
    except ValueError:
        raise InvalidRequest(
            f"RECONSUME_TIME {times!r} or MAX_RECONSUME_TIMES {maximum!r} is not a number"
        ) from None


# Batches: many messages in one request (code 320), for one topic and queue, stored together or not at all.
#
# Rules of Java's `MessageBatch.generateFromList`: same topic, same WAIT, no delay level, no retry topic. The
# broker accepts at most `max_bytes` of encoded items, uncompressed.

ITEM_HEAD = 22  # bytes of an item besides body and properties
UNIQ_KEY_SIZE = 66  # bytes of a UNIQ_KEY property to be added: name, two separators, up to 56 characters


def _size(message: Message) -> int:
    size = ITEM_HEAD + len(message.body) + len(properties_bytes(message.properties)) + 1
    return size if message.uniq_key else size + UNIQ_KEY_SIZE


def split_batch(
    messages: Iterable[Message], max_bytes: int = MAX_MESSAGE_SIZE, max_count: int = 0
) -> Iterator[list[Message]]:
    """Split messages, in order, into lists that fit one batch each: one topic, at most `max_bytes` encoded.

    `max_count` limits the messages of a list (0: no limit). A message that is too large for any batch is put
    in a list alone; sending it is refused.

    ```python
    messages = [Message.of("orders", b"item %d" % number) for number in range(1000)]
    for part in split_batch(messages, max_count=300):
        await producer.send_batch(part)
    ```
    """
    part: list[Message] = []
    room = max_bytes
    for message in messages:
        size = _size(message)
        full = size > room or (max_count and len(part) >= max_count)
        if part and (full or part[0].topic != message.topic):
            yield part
            part, room = [], max_bytes
        part.append(message)
        room -= size
    if part:
        yield part


def check_batch(messages: Sequence[Message]) -> None:
    """Raise InvalidRequest if these messages cannot form a batch."""
    if not messages:
        raise InvalidRequest("a batch needs at least one message")
    topic, wait = messages[0].topic, messages[0].properties.get(PropertyName.WAIT, "true")
    if topic.startswith(RETRY_PREFIX):
        raise InvalidRequest("messages of a retry topic cannot be sent in a batch")
    for message in messages:
        if message.topic != topic:
            raise InvalidRequest(f"a batch has one topic, not {topic} and {message.topic}")
        if message.delay_level > 0:
            raise InvalidRequest("messages with a delay level cannot be sent in a batch")
        if not TIMERS.isdisjoint(message.properties):
            raise InvalidRequest("messages with a timer cannot be sent in a batch")
        if message.properties.get(PropertyName.WAIT, "true") != wait:
            raise InvalidRequest("messages of a batch must agree on WAIT")


def batch_outgoing(messages: Sequence[Message], preparer: Preparer, namespace: str = "") -> Outgoing:
    """Return the batch as one request body. Raises InvalidRequest if it breaks a rule or the size limit.

    Brokers add the properties of the batch to those of each item.
    """
    check_batch(messages)
    for message in messages:
        preparer.check(message)
    items = [preparer.identified(message) for message in messages]
    try:
        body = encode_batch(items)
    except LocalProtocolError as error:
        raise InvalidRequest(str(error)) from error
    if len(body) > preparer.max_message_size:
        raise InvalidRequest(
            f"the batch has {len(body)} bytes, more than {preparer.max_message_size}: use split_batch"
        )
    wait = items[0].properties.get(PropertyName.WAIT)
    whole = {PropertyName.WAIT: wait, PropertyName.INSTANCE_ID: namespace}
    properties = properties_bytes({name: value for name, value in whole.items() if value}).decode()
    msg_id = ",".join(item.uniq_key or "" for item in items)
    return Outgoing(items[0].topic, body, 0, properties, 0, msg_id, batch=True)


MAX_KEPT = 4096  # queues whose header is kept


class SendHeaders:
    """The send requests of one producer group."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._kept: dict[MessageQueue, SendTemplate] = {}

    def request(self, outgoing: Outgoing, queue: MessageQueue) -> RemotingCommand | SendRequest:
        """Return a new request, which every attempt needs. Raises InvalidRequest if a name cannot be sent."""
        if not outgoing.is_plain:
            return self.command(outgoing, queue)
        template = self._kept.get(queue)
        if template is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            template = self._kept[queue] = self._template(outgoing, queue)
        return SendRequest(template, self._instance.now_ms(), outgoing.properties, outgoing.body)

    def command(self, outgoing: Outgoing, queue: MessageQueue) -> RemotingCommand:
        """Return the same request without using a template."""
        return request_of(outgoing.operation, self._header(outgoing, queue), outgoing.body)

    def _template(self, outgoing: Outgoing, queue: MessageQueue) -> SendTemplate:
        try:
            return SendTemplate(self._header(outgoing, queue), self._instance.pool.signer)
        except LocalProtocolError as error:
            raise InvalidRequest(f"{outgoing.operation.name} cannot be sent: {error}") from error

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=outgoing.topic,
            default_topic=SystemTopic.AUTO_CREATE,
            default_topic_queue_nums=self._instance.default_queues,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=self._instance.now_ms(),
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=outgoing.reconsume_times,
            unit_mode=self._instance.unit_mode,
            max_reconsume_times=outgoing.max_reconsume_times,
            batch=outgoing.batch,
            bname=queue.broker_name,
        )
