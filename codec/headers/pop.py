"""Headers of pop consumption (5.x). The codes exceed int16 and need JSON headers. Times in ms."""

from __future__ import annotations

from codec.headers.base import Header, Int32, Int64, TopicQueueRequestHeader


class AckMessageRequestHeader(TopicQueueRequestHeader, frozen=True, kw_only=True):
    """ACK_MESSAGE (200051)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64


class ChangeInvisibleTimeRequestHeader(TopicQueueRequestHeader, frozen=True, kw_only=True):
    """CHANGE_MESSAGE_INVISIBLETIME (200053)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64


class ChangeInvisibleTimeResponseHeader(Header, frozen=True, kw_only=True):
    """CHANGE_MESSAGE_INVISIBLETIME (200053)."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class NotificationRequestHeader(TopicQueueRequestHeader, frozen=True, kw_only=True):
    """NOTIFICATION (200054)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None


class NotificationResponseHeader(Header, frozen=True, kw_only=True):
    """NOTIFICATION (200054)."""

    has_msg: bool = False
    polling_full: bool = False


class PeekMessageRequestHeader(TopicQueueRequestHeader, frozen=True, kw_only=True):
    """PEEK_MESSAGE (200052)."""

    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


class PollingInfoRequestHeader(TopicQueueRequestHeader, frozen=True, kw_only=True):
    """POLLING_INFO (200055)."""

    consumer_group: str
    topic: str
    queue_id: Int32


class PollingInfoResponseHeader(Header, frozen=True, kw_only=True):
    """POLLING_INFO (200055)."""

    polling_num: Int32


class PopMessageRequestHeader(TopicQueueRequestHeader, frozen=True, kw_only=True):
    """POP_MESSAGE (200050)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PopMessageResponseHeader(Header, frozen=True, kw_only=True):
    """POP_MESSAGE (200050), PEEK_MESSAGE (200052)."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None
