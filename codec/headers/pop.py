"""Headers of pop consumption (5.x), whose codes exceed int16 and need JSON headers. Times are in ms."""

from __future__ import annotations

from rmqcli.codec.headers.base import GroupQueueRequestHeader, Header, Int32, Int64, TopicRequestHeader


class AckMessageRequestHeader(GroupQueueRequestHeader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    extra_info: str
    offset: Int64


class ChangeInvisibleTimeRequestHeader(GroupQueueRequestHeader, frozen=True, kw_only=True):
    extra_info: str
    offset: Int64
    invisible_time: Int64
    suspend: bool | None = None
    """True if the delivery does not count as an attempt (5.5, as in the gRPC service)."""


class ChangeInvisibleTimeResponseHeader(Header, frozen=True, kw_only=True):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class NotificationRequestHeader(GroupQueueRequestHeader, frozen=True, kw_only=True):
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None


class NotificationResponseHeader(Header, frozen=True, kw_only=True):
    has_msg: bool = False
    polling_full: bool = False


class PeekMessageRequestHeader(TopicRequestHeader, frozen=True, kw_only=True):
    topic: str
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: str


class PollingInfoRequestHeader(GroupQueueRequestHeader, frozen=True, kw_only=True):
    """A header without further fields."""


class PollingInfoResponseHeader(Header, frozen=True, kw_only=True):
    polling_num: Int32


class PopMessageRequestHeader(GroupQueueRequestHeader, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None
