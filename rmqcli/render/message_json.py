"""Converts a message to one JSON line and back without loss: `rmq pull --json | rmq send --jsonl` sends what
was read.

`body` is text if the bytes are UTF-8; otherwise `bodyBase64` replaces it. `properties` holds every property,
including KEYS and TAGS; `keys` and `tags` repeat them in a simpler form and take precedence if they were
edited. Times are epoch milliseconds. Reading requires only `body` or `bodyBase64`, and ignores unknown names
and those that a broker assigns. A line without `storeTimestamp` is a new message: its properties may not have
names that RocketMQ reserves, except KEYS, TAGS, UNIQ_KEY, DELAY and WAIT.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rmqcli.codec.edited import BYTE_ORDER_MARK
from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.property_names import CLOSED_TO_SENDERS, PropertyName, split_keys
from rmqcli.grammar.values import GrammarError
from rmqcli.render.output import safe_json
from rmqcli.render.text import WHOLE, Bodies

MESSAGE_FIELDS: Mapping[str, Callable[[MessageExt], Any]] = {
    "topic": lambda m: m.topic,
    "brokerName": lambda m: m.broker_name,
    "queueId": lambda m: m.queue_id,
    "queueOffset": lambda m: m.queue_offset,
    "commitLogOffset": lambda m: m.commit_log_offset,
    "msgId": lambda m: m.msg_id,
    "offsetMsgId": lambda m: m.offset_msg_id,
    "tags": lambda m: m.tags,
    "keys": lambda m: m.keys,
    "properties": lambda m: m.properties,
    "bornTimestamp": lambda m: m.born_timestamp,
    "bornHost": lambda m: m.born_host,
    "storeTimestamp": lambda m: m.store_timestamp,
    "storeHost": lambda m: m.store_host,
    "flag": lambda m: m.flag,
    "sysFlag": lambda m: m.sys_flag,
    "reconsumeTimes": lambda m: m.reconsume_times,
    "storeSize": lambda m: m.store_size,
    "bodyCrc": lambda m: m.body_crc,
}

BORN = "ORIGINAL_BORN_TIMESTAMP"
STORED = "ORIGINAL_STORE_TIMESTAMP"
"""Properties with the times of the message that another one repeats, in ms."""

# Properties that brokers and consumers add. Sent again, TRAN_MSG would make a half message, REAL_TOPIC a
# message held for another topic, and MSG_TYPE a reply.
_IN_TRANSIT = frozenset(
    {
        PropertyName.TRAN_MSG,
        PropertyName.MSG_TYPE,
        PropertyName.REAL_TOPIC,
        PropertyName.REAL_QID,
        PropertyName.MIN_OFFSET,
        PropertyName.MAX_OFFSET,
        PropertyName.CONSUME_START_TIME,
        PropertyName.TRAN_PREPARED_QUEUE_OFFSET,
        PropertyName.INNER_MULTI_QUEUE_OFFSET,
        PropertyName.CRC32,
    }
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def message_object(message: MessageExt, bodies: Bodies = WHOLE) -> dict[str, Any]:
    """Return the JSON object of a stored message, with names in the documented order.

    If the body is not shown whole, the object also has `bodySize` (bytes) and `bodyCut`.
    """
    found = {name: read(message) for name, read in MESSAGE_FIELDS.items()}
    body = bodies.cut(message.body)
    if bodies.meta_only or len(body) < len(message.body):
        found |= {"bodySize": len(message.body), "bodyCut": True}
    if bodies.meta_only:
        return found
    try:
        found["body"] = body.decode()
    except UnicodeDecodeError:
        found["bodyBase64"] = binascii.b2a_base64(body, newline=False).decode()
    return found


def message_line(message: MessageExt, bodies: Bodies = WHOLE) -> bytes:
    """Return one line without its end."""
    return safe_json(_encode(message_object(message, bodies)))


def message_from_json(line: bytes | str, topic: str | None = None) -> Message:
    """Return the message of one line, addressed to `topic` (None: to the topic in the line).

    Raise GrammarError, which describes the defect, for an invalid line.
    """
    try:
        found = _decode(line.removeprefix(BYTE_ORDER_MARK) if isinstance(line, bytes) else line)
        if not isinstance(found, dict):
            raise ValueError("expected an object")
        target = topic if topic is not None else found.get("topic")
        if not isinstance(target, str):
            raise ValueError("no topic")
        if found.get("bodyCut"):
            raise ValueError("its body was cut: write it without --max-body and --meta-only")
        if found.get("storeTimestamp") is None:
            _refuse_reserved(found.get("properties"))
        return message_of(target, _body(found), found)
    except (msgspec.DecodeError, ValueError) as error:
        raise GrammarError(f"not a message: {error}") from error


def _refuse_reserved(properties: object) -> None:
    names = properties if isinstance(properties, dict) else {}
    reserved = sorted(CLOSED_TO_SENDERS.intersection(names))
    if reserved:
        raise ValueError(f"RocketMQ reserves the property name {reserved[0]}")


def message_of(topic: str, body: bytes, found: Mapping[str, Any]) -> Message:
    """Return a message with an object's flag, properties, keys and tags. Raise ValueError for invalid ones."""
    return Message(topic=topic, body=body, flag=_flag(found), properties=_properties(found))


def _body(found: dict[str, Any]) -> bytes:
    text, packed = found.get("body"), found.get("bodyBase64")
    if isinstance(text, str) and packed is None:
        return text.encode()
    if isinstance(packed, str) and text is None:
        try:
            return binascii.a2b_base64(packed, strict_mode=True)
        except ValueError as error:
            raise ValueError(f"bodyBase64: {error}") from error
    raise ValueError("expected either body or bodyBase64, as text")


def _flag(found: Mapping[str, Any]) -> int:
    flag = found.get("flag", 0)
    if isinstance(flag, bool) or not isinstance(flag, int) or not -(1 << 31) <= flag < 1 << 31:
        raise ValueError("flag is not a 32-bit number")
    return flag


def _properties(found: Mapping[str, Any]) -> dict[str, str]:
    properties = found.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise ValueError("properties is not an object of strings")
    properties = dict(properties)
    if "keys" in found:
        _apply_keys(properties, found["keys"])
    if "tags" in found:
        _apply_tags(properties, found["tags"])
    for name, value in properties.items():
        # the stored form cannot represent these, so they would be lost silently
        if not name or not value or "\x01" in name:
            raise ValueError(
                f"property {name!r}: name and value must not be empty, and the name must not contain U+0001"
            )
    return properties


def _apply_keys(properties: dict[str, str], keys: object) -> None:
    keys = keys.split(" ") if isinstance(keys, str) else (keys or [])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("keys is not a list of strings")
    if any(" " in key for key in keys):
        raise ValueError("a key contains a space, which separates keys")
    wanted = " ".join(keys)
    # Only an edited list replaces the property, whose spaces may differ from those of the joined list.
    if split_keys(wanted) != split_keys(properties.get(PropertyName.KEYS)):
        _set(properties, PropertyName.KEYS, wanted)


def _apply_tags(properties: dict[str, str], tags: object) -> None:
    if tags is not None and not isinstance(tags, str):
        raise ValueError("tags is not a string")
    _set(properties, PropertyName.TAGS, tags or "")


def _set(properties: dict[str, str], name: str, value: str) -> None:
    if value:
        properties[name] = value
    else:
        properties.pop(name, None)


def sendable(message: Message) -> Message:
    """Return the message without the properties that describe its first delivery."""
    # A message with both was delivered after its delay; DELAY alone requests one.
    spent = {PropertyName.DELAY} if PropertyName.REAL_TOPIC in message.properties else set()
    dropped = _IN_TRANSIT | spent
    kept = {name: value for name, value in message.properties.items() if name not in dropped}
    return Message(topic=message.topic, body=message.body, flag=message.flag, properties=kept)
