"""Headers of sends, replies to messages, send-backs and recalls (Java `SendMessage…`). Times are epoch ms."""

from __future__ import annotations

from msgspec import field

from rmqcli.codec.headers.base import Header, Int32, Int64, RpcRequestHeader, TopicRequestHeader


class ConsumerSendMsgBackRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class RecallMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    topic: str
    recall_handle: str
    producer_group: str | None = None


class RecallMessageResponseHeader(Header, frozen=True, kw_only=True):
    msg_id: str


class ReplyMessageRequestHeader(Header, frozen=True, kw_only=True):
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


class SendMessageResponseHeader(Header, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reply to a send. Brokers add the last two ext fields to the header."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = field(name="MSG_REGION", default=None)
    trace_on: str | None = field(name="TRACE_ON", default=None)


class SendMessageRequestHeaderV2(Header, frozen=True, forbid_unknown_fields=True):
    """The values of SendMessageRequestHeader under wire names of one letter.

    A DirectReader leaves a request with more ext fields to the tolerant reader. The fields may be positional,
    so that a header is created in a third of the time.
    """

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str | None = field(name="i", default=None)
    reconsume_times: Int32 = field(name="j", default=0)
    unit_mode: bool = field(name="k", default=False)
    max_reconsume_times: Int32 | None = field(name="l", default=None)
    batch: bool = field(name="m", default=False)
    bname: str | None = field(name="n", default=None)
