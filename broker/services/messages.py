"""Messages that the broker makes: those that it stores again (sent back, delivered after their delay,
committed), hides in a system topic, or writes itself."""

from __future__ import annotations

from broker.auth.control import MessageTopics
from broker.context import BrokerContext
from broker.store.appending import MAX_TOPIC_BYTES
from broker.store.values import StoreMessage
from codec.errors import CorruptionError
from codec.ids import pack_host_text
from codec.message import MessageExt
from codec.names import DLQ_PREFIX, RETRY_PREFIX, keeps_others
from codec.properties import PropertyName, decode_properties, encode_properties
from codec.store.record import scan_record

MAX_QUEUE_DIGITS = 9


def real_place(properties: dict[str, str]) -> tuple[str, int] | None:
    """Return the topic and queue id that a half or delayed message is for; None when they are missing or
    invalid.
    """
    topic, queue = properties.get(PropertyName.REAL_TOPIC), properties.get(PropertyName.REAL_QID, "")
    if topic is None or not queue.isdecimal() or len(queue) > MAX_QUEUE_DIGITS or not can_be_stored(topic):
        return None
    return topic, int(queue)


def topics_at(broker: BrokerContext, offset: int) -> MessageTopics | None:
    """Return the topics of the message at an offset of the commit log, None if there is no record.

    CorruptionError unless a queue has this message: its body may hold what looks like a record. NotReady.
    """
    record = broker.store.record_at(offset)
    if record is None:
        return None
    found = scan_record(record)
    stored = found.topic.decode("utf-8", "replace")
    entries = broker.store.stored_entries(stored, found.queue_id, found.queue_offset, 1)
    if not entries or entries[0][:2] != (offset, len(record)):
        raise CorruptionError("no queue has a message that begins here", offset)
    properties = decode_properties(found.properties)
    real = properties.get(PropertyName.REAL_TOPIC, stored) if keeps_others(stored) else stored
    is_copy = real.startswith((RETRY_PREFIX, DLQ_PREFIX))
    origin = properties.get(PropertyName.RETRY_TOPIC, real) if is_copy else real
    return MessageTopics(stored, real, origin)


def can_be_stored(topic: str) -> bool:
    """Return True if a record can hold the topic: the retry topic of a group with a long name is too long."""
    return 0 < len(topic.encode("utf-8", "replace")) <= MAX_TOPIC_BYTES and not {"/", "\0"} & set(topic)


def restored(original: MessageExt, properties: dict[str, str], text: bytes) -> StoreMessage:
    """Return the message to store: `original` with these properties, which waits for no flush."""
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
        wait_store=False,
        is_known=True,
    )


def hide(message: StoreMessage, topic: str, queue_id: int) -> None:
    """Move a message to a system topic; its own topic and queue become REAL_TOPIC and REAL_QID."""
    message.properties[PropertyName.REAL_TOPIC] = message.topic
    message.properties[PropertyName.REAL_QID] = str(message.queue_id)
    message.properties_text = encode_properties(message.properties)
    message.topic, message.queue_id = topic, queue_id


def own_message(broker: BrokerContext, topic: str, body: bytes, properties: dict[str, str]) -> StoreMessage:
    """Return a message of the broker itself, with TAGS, for queue 0 of a system topic."""
    return StoreMessage(
        topic=topic,
        queue_id=0,
        body=body,
        properties=properties,
        properties_text=encode_properties(properties),
        born_timestamp=broker.now_ms(),
        born_host=broker.store_host,
    )
