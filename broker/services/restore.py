"""Stored messages on their way into the store again: sent back, or delivered after their delay."""

from __future__ import annotations

from broker.store.appending import MAX_TOPIC_BYTES
from broker.store.values import StoreMessage
from codec.hashing import tags_code
from codec.ids import pack_host_text
from codec.message import MessageExt
from codec.properties import PropertyName

__all__ = ["can_be_stored", "real_place", "restored"]

MAX_QUEUE_DIGITS = 9


def real_place(properties: dict[str, str]) -> tuple[str, int] | None:
    """Topic and queue id of the message that a half or delayed one stands for; None when it can have no such place."""
    topic, queue = properties.get(PropertyName.REAL_TOPIC), properties.get(PropertyName.REAL_QID, "")
    if topic is None or not queue.isdecimal() or len(queue) > MAX_QUEUE_DIGITS or not can_be_stored(topic):
        return None
    return topic, int(queue)


def can_be_stored(topic: str) -> bool:
    """Whether messages of a topic can be: that of a group with a long name is longer than a record can say."""
    return 0 < len(topic.encode("utf-8", "replace")) <= MAX_TOPIC_BYTES and not {"/", "\0"} & set(topic)


def restored(original: MessageExt, properties: dict[str, str], text: bytes) -> StoreMessage:
    """The same message with these properties: body, flags, birth and attempts as they were. It waits for no flush."""
    return StoreMessage(
        topic=original.topic,
        queue_id=original.queue_id,
        body=original.body,
        properties=properties,
        properties_text=text,
        born_timestamp=original.born_timestamp,
        born_host=pack_host_text(original.born_host),
        flag=original.flag,
        sys_flag=original.sys_flag,
        reconsume_times=original.reconsume_times,
        tags_code=tags_code(properties.get(PropertyName.TAGS)),
        wait_store=False,
    )
