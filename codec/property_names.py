"""Names of properties, and the values of those that have a format (Java classes `MessageConst`,
`MessageDecoder`).
"""

from __future__ import annotations

from collections.abc import Mapping

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
    PRIORITY = "_SYS_MSG_PRIORITY_"


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
        PropertyName.PRIORITY,
    )
)
"""Names that users may not give to their properties (Java `Message.putUserProperty`, which checks
`MessageConst.STRING_HASH_SET`), with the internal names of 5.x. TIMERS are for users.
"""
CLOSED_TO_SENDERS = RESERVED - {
    *(PropertyName.KEYS, PropertyName.TAGS, PropertyName.UNIQ_KEY, PropertyName.DELAY, PropertyName.WAIT),
    PropertyName.PRIORITY,
}
"""Reserved names that are neither a part of a new message nor an option of its sender."""


def split_keys(keys: str | None) -> list[str]:
    """Return the index keys of a KEYS value, which are separated by spaces."""
    return [key for key in keys.split(" ") if key] if keys else []


def delay_level(properties: Mapping[str, str]) -> int:
    """Return the level of the DELAY property; 0 unless it is a positive number of at most 10 ASCII digits."""
    level = properties.get(PropertyName.DELAY, "")
    return int(level) if len(level) < 11 and level.isascii() and level.isdigit() else 0


def priority(properties: Mapping[str, str]) -> int:
    """Return the priority of a message (5.4); -1 for one that is transactional, delayed or FIFO, and unless it is a
    number of at most 10 ASCII digits (Java class `TopicMessageType`)."""
    text = properties.get(PropertyName.PRIORITY, "")
    is_other = not _OTHER_TYPES.isdisjoint(properties)
    return -1 if is_other or len(text) > 10 or not (text.isascii() and text.isdigit()) else int(text)


_OTHER_TYPES = TIMERS | {PropertyName.TRAN_MSG, PropertyName.DELAY, PropertyName.SHARDING_KEY}
