"""Stores a stored message again: sent back, delivered after its delay, or committed."""

from __future__ import annotations

from broker.store.appending import MAX_TOPIC_BYTES
from broker.store.values import StoreMessage
from codec.hashing import tags_code
from codec.ids import pack_host_text
from codec.message import MessageExt
from codec.properties import PropertyName

MAX_QUEUE_DIGITS = 9


def real_place(properties: dict[str, str]) -> tuple[str, int] | None:
    """The topic and queue id that a half or delayed message is for; None when they are missing or invalid."""
    topic, queue = properties.get(PropertyName.REAL_TOPIC), properties.get(PropertyName.REAL_QID, "")
    if topic is None or not queue.isdecimal() or len(queue) > MAX_QUEUE_DIGITS or not can_be_stored(topic):
        return None
    return topic, int(queue)


def can_be_stored(topic: str) -> bool:
    """True when a record can hold the topic: the retry topic of a group with a long name is too long."""
    return 0 < len(topic.encode("utf-8", "replace")) <= MAX_TOPIC_BYTES and not {"/", "\0"} & set(topic)


def restored(original: MessageExt, properties: dict[str, str], text: bytes) -> StoreMessage:
    """The message to store: `original` with these properties, which waits for no flush."""
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
