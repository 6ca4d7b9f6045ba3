"""Batches: many messages in one request (code 320), for one topic and queue, stored together or not at all.

Rules of Java's `MessageBatch.generateFromList`: same topic, same WAIT, no delay level, no retry topic. The
broker accepts at most `max_bytes` of encoded items, uncompressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from codec.errors import LocalProtocolError
from codec.message import RETRY_PREFIX, Message, PropertyName
from codec.message_batch import encode_batch
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.produce.outgoing import MAX_MESSAGE_SIZE, Outgoing, Preparer, properties_bytes

ITEM_HEAD = 22  # bytes of an item besides body and properties
UNIQ_KEY_SIZE = 66  # bytes of a UNIQ_KEY property to be added: name, two separators, up to 56 characters


def _size(message: Message) -> int:
    size = ITEM_HEAD + len(message.body) + len(properties_bytes(message.properties)) + 1
    return size if message.uniq_key else size + UNIQ_KEY_SIZE


def split_batch(
    messages: Iterable[Message], max_bytes: int = MAX_MESSAGE_SIZE, max_count: int = 0
) -> Iterator[list[Message]]:
    """Split messages, in order, into lists that fit one batch: one topic, at most `max_bytes` encoded.

    `max_count` limits the messages of a list (0: no limit). A message that is too large for any batch gets a
    list of its own, which the send refuses.
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
    """Raise InvalidRequest when these messages cannot form a batch."""
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
        if message.properties.get(PropertyName.WAIT, "true") != wait:
            raise InvalidRequest("messages of a batch must agree on WAIT")


def batch_outgoing(messages: Sequence[Message], preparer: Preparer, namespace: str = "") -> Outgoing:
    """Return the batch as one request body; InvalidRequest when it breaks a rule or the size limit.

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
