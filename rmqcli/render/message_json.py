"""A message as one JSON line, loss-free both ways: `rmq pull --json | rmq send --jsonl` sends what was read.

`body` is text when the bytes are UTF-8, else `bodyBase64` takes its place. `properties` holds every property, so also
KEYS and TAGS; `keys` and `tags` say the same in a handier form and win when they were edited. Times are epoch
milliseconds. Reading needs only `body` or `bodyBase64`; unknown names and those that a broker assigns are ignored.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from codec.message import Message, MessageExt
from codec.properties import PropertyName, split_keys
from rmqcli.grammar.errors import GrammarError

__all__ = ["MESSAGE_FIELDS", "message_from_json", "message_line", "message_object", "message_of", "sendable"]

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

# What a broker or a consumer stamps on a message on its way. Sent again, they would make it something else: TRAN_MSG a
# half message, REAL_TOPIC one parked for another topic, MSG_TYPE one that is pushed to whoever asked.
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


def message_object(message: MessageExt) -> dict[str, Any]:
    """The JSON object of a stored message, names in the documented order."""
    found = {name: read(message) for name, read in MESSAGE_FIELDS.items()}
    try:
        found["body"] = message.body.decode()
    except UnicodeDecodeError:
        found["bodyBase64"] = binascii.b2a_base64(message.body, newline=False).decode()
    return found


def message_line(message: MessageExt) -> bytes:
    """One line, without its end."""
    return _encode(message_object(message))


def message_from_json(line: bytes | str, topic: str | None = None) -> Message:
    """The message of one line, to be sent to `topic` (None: to the topic that the line names).

    CommandError(USAGE) says what is wrong with the line.
    """
    try:
        found = _decode(line)
        if not isinstance(found, dict):
            raise ValueError("an object is expected")
        target = topic if topic is not None else found.get("topic")
        if not isinstance(target, str):
            raise ValueError("no topic")
        return message_of(target, _body(found), found)
    except (msgspec.DecodeError, ValueError) as error:
        raise GrammarError(f"not a message: {error}") from error


def message_of(topic: str, body: bytes, found: Mapping[str, Any]) -> Message:
    """With the flag, properties, keys and tags of an object; ValueError says what is wrong with them."""
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
    raise ValueError("one of body and bodyBase64 is expected, as text")


def _flag(found: Mapping[str, Any]) -> int:
    flag = found.get("flag", 0)
    if isinstance(flag, bool) or not isinstance(flag, int) or not -(1 << 31) <= flag < 1 << 31:
        raise ValueError("flag is not a 32-bit number")
    return flag


def _properties(found: Mapping[str, Any]) -> dict[str, str]:
    properties = found.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise ValueError("properties is not an object of texts")
    properties = dict(properties)
    if "keys" in found:
        _apply_keys(properties, found["keys"])
    if "tags" in found:
        _apply_tags(properties, found["tags"])
    for name, value in properties.items():
        # what no properties text can hold would be lost without a word
        if not name or not value or "\x01" in name:
            raise ValueError(
                f"property {name!r}: neither name nor value may be empty, and no name holds U+0001"
            )
    return properties


def _apply_keys(properties: dict[str, str], keys: object) -> None:
    keys = keys.split(" ") if isinstance(keys, str) else (keys or [])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("keys is not a list of texts")
    if any(" " in key for key in keys):
        raise ValueError("a key holds a blank, which separates keys")
    wanted = " ".join(keys)
    # Only an edited list replaces the property: its blanks may differ from what joining makes.
    if split_keys(wanted) != split_keys(properties.get(PropertyName.KEYS)):
        _set(properties, PropertyName.KEYS, wanted)


def _apply_tags(properties: dict[str, str], tags: object) -> None:
    if tags is not None and not isinstance(tags, str):
        raise ValueError("tags is not a text")
    _set(properties, PropertyName.TAGS, tags or "")


def _set(properties: dict[str, str], name: str, value: str) -> None:
    if value:
        properties[name] = value
    else:
        properties.pop(name, None)


def sendable(message: Message) -> Message:
    """Without the properties that only mean something on the way of the first sending."""
    # A message with both was delivered after its delay, which is spent; DELAY alone asks for one.
    spent = {PropertyName.DELAY} if PropertyName.REAL_TOPIC in message.properties else set()
    dropped = _IN_TRANSIT | spent
    kept = {name: value for name, value in message.properties.items() if name not in dropped}
    return Message(topic=message.topic, body=message.body, flag=message.flag, properties=kept)
