"""Conversion of messages between the service and the store (Java `SendMessageActivity`, `GrpcConverter`).

A message is delivered without compression, with the MD5 of its body, no matter how it was sent: every
official client understands that.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

from rmqcli.broker.proxy.answers import StatusError
from rmqcli.codec.compression import decompress
from rmqcli.codec.core.hashing import java_string_hash
from rmqcli.codec.message import MessageExt
from rmqcli.codec.property_names import RESERVED, TIMERS, PropertyName, priority, split_keys
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code, DigestType, Encoding, MessageType

P = PropertyName

MOST_PROPERTIES: Final = 128
LONGEST_PROPERTIES: Final = 16 * 1024
LONGEST_GROUP: Final = 64
LONGEST_ID: Final = 255
OWN_NAMES: Final = RESERVED | TIMERS | {P.SHARDING_KEY}
"""Names of properties that no user property can have."""
_CONTROLS = re.compile("[\x00-\x1f\x7f]")
GZIP_WINDOW: Final = 31
LARGEST_INT: Final = 2**31 - 1


def full_name(resource: Any) -> str:
    """Return the name of a topic or group in its namespace."""
    space, name = resource.resource_namespace, resource.name
    return f"{space}%{name}" if space else str(name)


def resource(name: str) -> Any:
    """Return the resource of a topic or group."""
    space, separator, rest = name.partition("%")
    if separator and space:
        return messages.Resource(resource_namespace=space, name=rest)
    return messages.Resource(name=name)


def milliseconds(value: Any) -> int:
    """Return a Timestamp or Duration in ms."""
    return int(value.seconds) * 1000 + int(value.nanos) // 1_000_000


def timestamp(ms: int) -> Any:
    """Return a Timestamp."""
    return messages.Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def duration(ms: int) -> Any:
    """Return a Duration."""
    return messages.Duration(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


# To the store


def properties_of(message: Any, producer_group: str) -> dict[str, str]:
    """Return the properties of a message to be stored. Raises StatusError for an invalid property."""
    system = message.system_properties
    properties = _user_properties(message.user_properties)
    if not system.message_id or _CONTROLS.search(system.message_id) or len(system.message_id) > LONGEST_ID:
        raise StatusError(Code.ILLEGAL_MESSAGE_ID, "message_id: a short text is expected")
    properties[P.UNIQ_KEY] = system.message_id
    properties |= _labels(system)
    if system.HasField("delivery_timestamp"):
        properties[P.TIMER_DELIVER_MS] = str(milliseconds(system.delivery_timestamp))
    if system.HasField("priority"):
        if system.priority < 0:
            raise StatusError(Code.BAD_REQUEST, "priority: 0 or more is expected")
        properties[P.PRIORITY] = str(system.priority)
    if system.HasField("trace_context") and system.trace_context:
        properties[P.TRACE_CONTEXT] = _CONTROLS.sub(" ", system.trace_context)
    if system.message_type == MessageType.TRANSACTION:
        properties[P.TRAN_MSG] = "true"
        properties[P.PGROUP] = producer_group
        seconds = milliseconds(system.orphaned_transaction_recovery_duration) // 1000
        if seconds > 0:
            properties[P.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(seconds)
    elif system.message_type == MessageType.LITE:
        raise StatusError(Code.UNSUPPORTED, "lite messages are not supported")
    return properties


def _labels(system: Any) -> dict[str, str]:
    """Return the properties of tag, keys and message group."""
    labels: dict[str, str] = {}
    if system.HasField("tag"):
        if not system.tag.strip() or "|" in system.tag or _CONTROLS.search(system.tag):
            raise StatusError(
                Code.ILLEGAL_MESSAGE_TAG, "tag cannot be blank, or have '|' or control characters"
            )
        labels[P.TAGS] = system.tag
    if system.keys:
        if any(not key.strip() or _CONTROLS.search(key) for key in system.keys):
            raise StatusError(Code.ILLEGAL_MESSAGE_KEY, "a key cannot be blank or have control characters")
        labels[P.KEYS] = " ".join(system.keys)
    if system.HasField("message_group"):
        group = system.message_group
        if not group.strip() or len(group) >= LONGEST_GROUP or _CONTROLS.search(group):
            text = f"message_group: a text of less than {LONGEST_GROUP} characters is expected"
            raise StatusError(Code.ILLEGAL_MESSAGE_GROUP, text)
        labels[P.SHARDING_KEY] = group
    return labels


def _user_properties(given: Mapping[str, str]) -> dict[str, str]:
    if not given:
        return {}
    if len(given) > MOST_PROPERTIES:
        raise StatusError(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"a message can have {MOST_PROPERTIES} user properties, not {len(given)}",
        )
    properties = dict(given)
    size = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())
    if size > LONGEST_PROPERTIES:
        raise StatusError(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"user properties can have {LONGEST_PROPERTIES} bytes, not {size}",
        )
    for name, value in properties.items():
        if name in OWN_NAMES:
            raise StatusError(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name} is used by system")
        if not name.strip() or _CONTROLS.search(name) or _CONTROLS.search(value):
            raise StatusError(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name!r} is blank or has control characters"
            )
    return properties


def plain_body(message: Any, limit: int) -> bytes:
    """Return the body of a message without its compression. Raises StatusError."""
    body = bytes(message.body)
    if message.system_properties.body_encoding == Encoding.GZIP:
        unpacking = zlib.decompressobj(GZIP_WINDOW)
        try:
            body = unpacking.decompress(body, limit + 1)
        except zlib.error as error:
            raise StatusError(Code.MESSAGE_CORRUPTED, f"the body is not GZIP: {error}") from None
        if not unpacking.eof and len(body) <= limit:
            raise StatusError(Code.MESSAGE_CORRUPTED, "the body is not complete GZIP")
    if not body:
        raise StatusError(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(body) > limit:
        raise StatusError(Code.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed {limit} bytes")
    return body


_MULTIPLIER, _MASK = 2862933555777941757, 2**64 - 1


def queue_of_group(group: str, queues: int) -> int:
    """Return the queue of a message group, the same as a Java proxy's: consistent hashing, so that few groups
    move if queues are added (guava `Hashing.consistentHash`)."""
    state = java_string_hash(group) & _MASK
    candidate = 0
    while True:
        state = (_MULTIPLIER * state + 1) & _MASK
        step = ((state >> 33) + 1) / 2**31
        following = int((candidate + 1) / step)
        if not 0 <= following < queues:
            return candidate
        candidate = following


# From the store


def type_of(properties: Mapping[str, str]) -> MessageType:
    """Return the type of a message."""
    if properties.get(P.TRAN_MSG) == "true":
        return MessageType.TRANSACTION
    if P.DELAY in properties or not TIMERS.isdisjoint(properties):
        return MessageType.DELAY
    if P.SHARDING_KEY in properties:
        return MessageType.FIFO
    return MessageType.PRIORITY if priority(properties) >= 0 else MessageType.NORMAL


def message_of(stored: MessageExt, topic: Any = None) -> Any:
    """Return a stored message as clients receive it; `topic` is the resource by which they know its topic."""
    body = decompress(stored.body, stored.sys_flag)
    properties = stored.properties
    system = messages.SystemProperties(
        keys=split_keys(properties.get(P.KEYS)),
        message_id=stored.msg_id,
        body_digest=messages.Digest(type=DigestType.MD5, checksum=hashlib.md5(body).hexdigest().upper()),
        body_encoding=Encoding.IDENTITY,
        message_type=type_of(properties),
        born_timestamp=timestamp(stored.born_timestamp),
        born_host=stored.born_host,
        store_timestamp=timestamp(stored.store_timestamp),
        store_host=stored.store_host,
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        delivery_attempt=stored.reconsume_times + 1,
    )
    if tag := properties.get(P.TAGS):
        system.tag = tag
    if group := properties.get(P.SHARDING_KEY):
        system.message_group = group
    if trace := properties.get(P.TRACE_CONTEXT):
        system.trace_context = trace
    if (wanted := priority(properties)) >= 0:
        system.priority = min(wanted, LARGEST_INT)
    due = properties.get(P.TIMER_DELIVER_MS, "")
    if due.isdecimal() and len(due) < 16:
        system.delivery_timestamp.CopyFrom(timestamp(int(due)))
    users = {name: value for name, value in properties.items() if name not in OWN_NAMES}
    return messages.Message(
        topic=topic or resource(stored.topic), user_properties=users, system_properties=system, body=body
    )
