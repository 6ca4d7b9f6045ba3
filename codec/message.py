"""Messages as values: those to be sent, and those that a broker stored (Java classes `Message`,
`MessageExt`).

Times are milliseconds since 1970 UTC. Hosts are strings, `ip:port` or `[v6]:port`. No message can be part of
a reference cycle, so the garbage collector need not walk the thousands that a pull creates (`gc=False`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from rmqcli.codec.ids import offset_msg_id, pack_host_text
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SystemTopic,
    check_group,
    check_topic,
    dlq_topic,
    is_system_topic,
    retry_topic,
)
from rmqcli.codec.property_names import PropertyName, delay_level, split_keys

__all__ = [
    "DLQ_PREFIX",
    "RETRY_PREFIX",
    "Message",
    "MessageExt",
    "MessageQueue",
    "PropertyName",
    "SystemTopic",
    "check_group",
    "check_topic",
    "dlq_topic",
    "is_system_topic",
    "retry_topic",
]


class Message(msgspec.Struct, frozen=True, gc=False):
    """A message to be sent. `flag` is an int32 for the user; tags, keys and delay level are in the
    properties. Raises TypeError for a topic that is not a str and a body that is not bytes.

    ```python
    message = Message.of("orders", b"hello", tags="paid", keys=["order-42"])
    await producer.send(message)
    ```
    """

    topic: str
    body: bytes = b""
    flag: int = 0
    properties: dict[str, str] = {}

    def __post_init__(self) -> None:
        if type(self.body) is not bytes or type(self.topic) is not str:
            _check(self.topic, str, "the topic of a message")
            _check(self.body, bytes, "the body of a message")

    @classmethod
    def of(
        cls,
        topic: str,
        body: bytes | str = b"",
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        delay_level: int = 0,
        delay: float | None = None,
        deliver_at: datetime | None = None,
        priority: int | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
    ) -> Message:
        """Create a message from its parts. A str body is encoded as UTF-8; `keys` is one key or several,
        without spaces.

        One of these delays the message: a level of the broker, a `delay` in seconds, or the time `deliver_at`
        (local time if it has no time zone). Brokers without timers, such as those of 4.9, deliver messages
        with one of the latter two immediately. With a `priority` of 0 or more, consumers that pop get the
        message before those of lower priority, if its topic has the type PRIORITY (5.4); it is the number of
        a queue, so 7 is the highest with 8 queues.

        Raises TypeError for a part of another type, ValueError for a negative number and for two delays.
        """
        named = dict(properties or {})
        try:
            joined = keys if isinstance(keys, str) else " ".join(keys)
        except TypeError:
            raise TypeError(f"the keys of a message are texts, not {keys!r}") from None
        if tags:
            _check(tags, str, "the tag of a message")
            named[PropertyName.TAGS] = tags
        if joined:
            named[PropertyName.KEYS] = joined
        if delay_level:
            _check(delay_level, int, "the delay level of a message")
            if delay_level < 0:
                raise ValueError(f"the delay level of a message is 0 or more, not {delay_level}")
            named[PropertyName.DELAY] = str(delay_level)
        if delay is not None:
            if not isinstance(delay, int | float):
                raise TypeError(f"the delay of a message is a number of seconds, not {delay!r}")
            if not 0 <= delay < math.inf:
                raise ValueError(f"the delay of a message is 0 s or more, not {delay}")
            named[PropertyName.TIMER_DELAY_MS] = str(math.ceil(delay * 1000))
        if deliver_at is not None:
            _check(deliver_at, datetime, "the time of delivery of a message")
            named[PropertyName.TIMER_DELIVER_MS] = str(math.ceil(deliver_at.timestamp() * 1000))
        if bool(delay_level) + (delay is not None) + (deliver_at is not None) > 1:
            raise ValueError("a message has one of delay_level, delay and deliver_at")
        if priority is not None:
            _check(priority, int, "the priority of a message")
            if priority < 0:
                raise ValueError(f"the priority of a message is 0 or more, not {priority}")
            named[PropertyName.PRIORITY] = str(priority)
        data = body.encode() if isinstance(body, str) else body
        return cls(topic=topic, body=data, flag=flag, properties=named)

    @property
    def tags(self) -> str | None:
        return self.properties.get(PropertyName.TAGS)

    @property
    def keys(self) -> list[str]:
        return split_keys(self.properties.get(PropertyName.KEYS))

    @property
    def delay_level(self) -> int:
        """The level of the DELAY property; 0 if it is missing or not a number."""
        return delay_level(self.properties)

    @property
    def uniq_key(self) -> str | None:
        return self.properties.get(PropertyName.UNIQ_KEY)

    def with_properties(self, properties: Mapping[str, str] = {}, /, **named: str) -> Message:
        """Return the same message with these properties set."""
        merged = {**self.properties, **properties, **named}
        return Message(topic=self.topic, body=self.body, flag=self.flag, properties=merged)


def _check(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        hint = ": encode it, or use Message.of" if kind is bytes and isinstance(value, str) else ""
        raise TypeError(f"{name} is {kind.__name__}, not {type(value).__name__}{hint}")


class MessageExt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored message. Its body is as stored (perhaps compressed) unless the decoder decompressed it;
    `sys_flag` is always the stored one.

    `queue_offset` is 0 for prepared and rolled-back transaction messages.

    ```python
    async with PullConsumer() as consumer:
        (message,) = (await consumer.pull(MessageQueue("orders", "broker-a", 0), 0)).messages
    assert (message.body, message.tags, message.queue_offset) == (b"hello", "paid", 0)
    ```
    """

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    body_crc: int
    store_size: int
    body: bytes
    properties: dict[str, str]
    broker_name: str = ""

    @property
    def msg_id(self) -> str:
        """The UNIQ_KEY that the producer set, otherwise the offset message id."""
        return self.properties.get(PropertyName.UNIQ_KEY) or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        packed = pack_host_text(self.store_host)
        return offset_msg_id(packed[:-4], int.from_bytes(packed[-4:], "big"), self.commit_log_offset)

    @property
    def tags(self) -> str | None:
        return self.properties.get(PropertyName.TAGS)

    @property
    def keys(self) -> list[str]:
        return split_keys(self.properties.get(PropertyName.KEYS))

    @property
    def queue(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)
