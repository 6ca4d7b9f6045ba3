r"""The properties text of a message: `name \x01 value \x02` for each pair, in UTF-8 (Java class
`MessageDecoder`).

4.9 omits the last separator, 5.x writes it; both are read. A pair with an empty name or value is dropped
silently. If two pairs have the same name, the last one wins. A value may contain \x01. The order of pairs has
no meaning. Bytes that are not UTF-8 are read as U+FFFD, and a lone surrogate is written as `?`, as in Java.
"""

from __future__ import annotations

from collections.abc import Mapping

from rmqcli.codec.core.pairs import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, read_pairs
from rmqcli.codec.errors import LocalProtocolError

_NAME_END, _PAIR_END = NAME_VALUE_SEPARATOR.encode(), PROPERTY_SEPARATOR.encode()
MAX_PROPERTIES_LENGTH = 32767
"""The maximum bytes of the encoded text, whose length is a Java short."""


class PropertyName:
    """Property names that RocketMQ itself uses (Java class `MessageConst`)."""

    KEYS = "KEYS"
    TAGS = "TAGS"
    WAIT = "WAIT"
    DELAY = "DELAY"
    RETRY_TOPIC = "RETRY_TOPIC"
    REAL_TOPIC = "REAL_TOPIC"
    REAL_QID = "REAL_QID"
    TRAN_MSG = "TRAN_MSG"
    PGROUP = "PGROUP"
    MIN_OFFSET = "MIN_OFFSET"
    MAX_OFFSET = "MAX_OFFSET"
    BUYER_ID = "BUYER_ID"
    TRANSFER_FLAG = "TRANSFER_FLAG"
    CORRECTION_FLAG = "CORRECTION_FLAG"
    MQ2_FLAG = "MQ2_FLAG"
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    RECONSUME_TIME = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
    MSG_REGION = "MSG_REGION"
    TRACE_ON = "TRACE_ON"
    UNIQ_KEY = "UNIQ_KEY"
    CONSUME_START_TIME = "CONSUME_START_TIME"
    TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    INSTANCE_ID = "INSTANCE_ID"
    CORRELATION_ID = "CORRELATION_ID"
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
    TTL = "TTL"
    ARRIVE_TIME = "ARRIVE_TIME"
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
    CLUSTER = "CLUSTER"
    MSG_TYPE = "MSG_TYPE"
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
    # 5.x
    EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO"
    INNER_NUM = "INNER_NUM"
    INNER_BASE = "INNER_BASE"
    DUP_INFO = "DUP_INFO"
    TRANSACTION_ID = "__transactionId__"
    POP_CK = "POP_CK"
    POP_CK_OFFSET = "POP_CK_OFFSET"
    FIRST_POP_TIME = "1ST_POP_TIME"
    SHARDING_KEY = "__SHARDINGKEY"
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
    TIMER_OUT_MS = "TIMER_OUT_MS"
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
    TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"
    FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID"
    REDIRECT = "REDIRECT"
    TRACE_CONTEXT = "TRACE_CONTEXT"
    TRANSIENT_TOPIC_SYS_FLAG = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"
    TRANSIENT_GROUP_SYS_FLAG = "__RMQ.TRANSIENT.GROUP_SYS_FLAG"
    BORN_HOST = "__BORNHOST"
    BORN_TIMESTAMP = "BORN_TIMESTAMP"
    CRC32 = "__CRC32#"
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"


TIMERS = frozenset((PropertyName.TIMER_DELAY_SEC, PropertyName.TIMER_DELAY_MS, PropertyName.TIMER_DELIVER_MS))
"""The properties by which 5.x clients request a delay of any length."""

REPLY_TYPE = "reply"
"""MSG_TYPE of the reply to a request; brokers pass it to the requesting client."""

RESERVED = frozenset(
    (
        *(PropertyName.KEYS, PropertyName.TAGS, PropertyName.WAIT, PropertyName.DELAY),
        *(PropertyName.RETRY_TOPIC, PropertyName.REAL_TOPIC, PropertyName.REAL_QID),
        *(PropertyName.TRAN_MSG, PropertyName.PGROUP, PropertyName.MIN_OFFSET, PropertyName.MAX_OFFSET),
        *(PropertyName.BUYER_ID, PropertyName.TRANSFER_FLAG, PropertyName.CORRECTION_FLAG),
        *(PropertyName.MQ2_FLAG, PropertyName.ORIGIN_MESSAGE_ID, PropertyName.RECONSUME_TIME),
        *(PropertyName.MAX_RECONSUME_TIMES, PropertyName.MSG_REGION, PropertyName.TRACE_ON),
        *(PropertyName.UNIQ_KEY, PropertyName.CONSUME_START_TIME, PropertyName.INSTANCE_ID),
        *(PropertyName.TRAN_PREPARED_QUEUE_OFFSET, PropertyName.TRANSACTION_CHECK_TIMES),
        *(PropertyName.CORRELATION_ID, PropertyName.REPLY_TO_CLIENT, PropertyName.TTL),
        *(PropertyName.ARRIVE_TIME, PropertyName.PUSH_REPLY_TIME, PropertyName.CLUSTER),
        *(PropertyName.MSG_TYPE, PropertyName.INNER_MULTI_QUEUE_OFFSET, PropertyName.CRC32),
        *(PropertyName.EXTEND_UNIQ_INFO, PropertyName.INNER_NUM, PropertyName.INNER_BASE),
        *(PropertyName.DUP_INFO, PropertyName.TRANSACTION_ID, PropertyName.POP_CK),
        *(PropertyName.POP_CK_OFFSET, PropertyName.FIRST_POP_TIME, PropertyName.TIMER_OUT_MS),
        *(PropertyName.TIMER_ENQUEUE_MS, PropertyName.TIMER_DEQUEUE_MS, PropertyName.TIMER_ROLL_TIMES),
        *(PropertyName.TIMER_DEL_UNIQKEY, PropertyName.TIMER_DELAY_LEVEL, PropertyName.FORWARD_QUEUE_ID),
        *(PropertyName.REDIRECT, PropertyName.TRACE_CONTEXT, PropertyName.TRANSIENT_TOPIC_SYS_FLAG),
        *(PropertyName.TRANSIENT_GROUP_SYS_FLAG, PropertyName.BORN_HOST, PropertyName.BORN_TIMESTAMP),
    )
)
"""Names that users may not give to their own properties (Java `Message.putUserProperty`, which checks
`MessageConst.STRING_HASH_SET`), with the internal names of 5.x. TIMERS are for users.
"""

CLOSED_TO_SENDERS = RESERVED - {
    *(PropertyName.KEYS, PropertyName.TAGS, PropertyName.UNIQ_KEY, PropertyName.DELAY, PropertyName.WAIT)
}
"""Reserved names that are neither a part of a new message nor an option of its sender."""


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode pairs as 4.9 does, without the last separator. Raises LocalProtocolError over 32,767 bytes."""
    text = PROPERTY_SEPARATOR.join([f"{name}\x01{value}" for name, value in properties.items()])
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_PROPERTIES_LENGTH:
        raise LocalProtocolError(
            f"the properties take {len(data)} bytes, the limit is {MAX_PROPERTIES_LENGTH}"
        )
    return data


def decode_properties(data: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """Return the pairs of a properties text, which may be any text."""
    return read_pairs(data if isinstance(data, str) else str(data, "utf-8", "replace"))


def split_keys(keys: str | None) -> list[str]:
    """Return the index keys of a KEYS value, which are separated by blanks."""
    return [key for key in keys.split(" ") if key] if keys else []


def delay_level(properties: Mapping[str, str]) -> int:
    """Return the level of the DELAY property; 0 unless it is a positive number of at most 10 ASCII digits."""
    level = properties.get(PropertyName.DELAY, "")
    return int(level) if len(level) < 11 and level.isascii() and level.isdigit() else 0


def properties_problem(text: bytes) -> str | None:
    """Return the reason why a text does not parse (it is not UTF-8, or a pair has no name), or None for a
    sound text.
    """
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"its properties do not parse: byte {error.start} of them is not UTF-8"
    bad = next((pair for pair in text.split(_PAIR_END) if pair and pair.find(_NAME_END) < 1), None)
    return None if bad is None else f"its properties do not parse: a pair without a name, {bad[:20]!r}"


def sound_text(text: bytes, properties: Mapping[str, str]) -> bytes:
    """Return a text that parses: `text` itself, or the pairs that were read from it. Raises
    LocalProtocolError.

    Readers of a store regard a record whose properties do not parse as damaged.
    """
    ends = text.count(_PAIR_END) - text.endswith(_PAIR_END)
    # If the text has as many separators as pairs were read, none of them lacks a name.
    if (ends == len(properties) - 1 and text.isascii()) or properties_problem(text) is None:
        return text
    return encode_properties(properties)


def mended_properties(text: bytes) -> bytes:
    """Return a text of the same length with the readable pairs; separators replace the others."""
    pairs = text.split(_PAIR_END)
    return _PAIR_END.join(pair if not properties_problem(pair) else _PAIR_END * len(pair) for pair in pairs)
