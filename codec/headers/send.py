"""Headers of sending: single, batch, reply, send-back (Java `remoting.protocol.header.SendMessage*`).
Times in epoch ms."""

from __future__ import annotations

import msgspec

from codec.headers.base import Header, Int32, Int64, RpcRequestHeader, TopicRequestHeader


class ConsumerSendMsgBackRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """CONSUMER_SEND_MSG_BACK (36)."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class RecallMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    """RECALL_MESSAGE (370)."""

    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallMessageResponseHeader(Header, frozen=True, kw_only=True):
    """RECALL_MESSAGE (370)."""

    msg_id: str


class ReplyMessageRequestHeader(Header, frozen=True, kw_only=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    born_host: str
    store_host: str
    store_timestamp: Int64
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False


class SendMessageRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """SEND_MESSAGE (10), SEND_REPLY_MESSAGE (324)."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    batch: bool = False
    max_reconsume_times: Int32 | None = None


class SendMessageResponseHeader(Header, frozen=True, kw_only=True):
    """SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320), SEND_REPLY_MESSAGE (324),
    SEND_REPLY_MESSAGE_V2 (325)."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


# Wire names of SendMessageRequestHeaderV2: its fields in order are called a to n.
_COMPACT = dict(
    zip(
        (
            "producer_group",
            "topic",
            "default_topic",
            "default_topic_queue_nums",
            "queue_id",
            "sys_flag",
            "born_timestamp",
            "flag",
            "properties",
            "reconsume_times",
            "unit_mode",
            "max_reconsume_times",
            "batch",
            "bname",
        ),
        "abcdefghijklmn",
        strict=True,
    )
)


class SendMessageRequestHeaderV2(
    Header, frozen=True, kw_only=True, rename=_COMPACT.get, forbid_unknown_fields=True
):
    """SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320), SEND_REPLY_MESSAGE_V2 (325): one-letter wire names.

    A request with more ext fields, such as a signature, is no business of a DirectReader: it would lose them.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    bname: str | None = None

    def to_v1(self) -> SendMessageRequestHeader:
        """The same values under the long wire names."""
        return SendMessageRequestHeader(**msgspec.structs.asdict(self))

    @classmethod
    def from_v1(cls, header: SendMessageRequestHeader) -> SendMessageRequestHeaderV2:
        """The same values under the one-letter wire names; `ns`, `nsd`, `oway` have none and are left out."""
        return cls(**{name: getattr(header, name) for name in cls.__struct_fields__})
