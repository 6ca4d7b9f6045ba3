"""A copied message: the parts kept from the original, and the property that records its origin."""

from __future__ import annotations

from typing import Final, NamedTuple

from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.property_names import RESERVED, TIMERS, PropertyName
from rmqcli.render.message_json import BORN, STORED

COPIED_FROM: Final = "COPIED_FROM"
"""Property of a copy: `COPY HOW TOPIC BROKER QUEUE OFFSET` of its original."""
_KEPT = frozenset((PropertyName.KEYS, PropertyName.TAGS, PropertyName.UNIQ_KEY, PropertyName.TRACE_CONTEXT))
DROPPED: Final = (RESERVED - _KEPT) | TIMERS | {PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS}
"""Properties of the delivery, retry, delay, transaction or request of the original, and of its cluster."""


class Mark(NamedTuple):
    """The origin of a copied message. `copy` identifies the copy, `how` is its choice of queues."""

    copy: str
    how: str
    queue: MessageQueue
    offset: int

    def __str__(self) -> str:
        queue = self.queue
        return f"{self.copy} {self.how} {queue.topic} {queue.broker_name} {queue.queue_id} {self.offset}"


def mark_of(message: MessageExt) -> Mark | None:
    """Return the mark of a message; None if it is not a copy."""
    parts = message.properties.get(COPIED_FROM, "").split(" ")
    if len(parts) != 6 or not (parts[4].isdecimal() and parts[5].isdecimal()):
        return None
    copy, how, topic, broker, number, offset = parts
    return Mark(copy, how, MessageQueue(topic, broker, int(number)), int(offset))


def copied(original: MessageExt, topic: str, mark: Mark) -> Message:
    """Return the message to send to `topic`.

    Times of the first original are kept, as is the message id.
    """
    kept = {name: value for name, value in original.properties.items() if name not in DROPPED}
    times = {BORN: str(original.born_timestamp), STORED: str(original.store_timestamp)}
    named = {PropertyName.UNIQ_KEY: original.msg_id, COPIED_FROM: str(mark)}
    return Message(topic=topic, body=original.body, flag=original.flag, properties={**times, **kept, **named})
