"""Headers of reading messages: by pull, by key, or by commit-log offset.

Offsets of a pull are queue offsets; `suspend_timeout_millis` is in ms, timestamps are epoch ms.
"""

from __future__ import annotations

from rmqcli.codec.headers.base import GroupQueueRequestHeader, Header, Int32, Int64


class PullMessageRequestHeader(
    GroupQueueRequestHeader, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64 = 0
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None


class PullMessageResponseHeader(Header, frozen=True, kw_only=True):
    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class QueryMessageRequestHeader(Header, frozen=True, kw_only=True):
    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64


class QueryMessageResponseHeader(Header, frozen=True, kw_only=True):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequestHeader(Header, frozen=True, kw_only=True):
    offset: Int64
    topic: str | None = None


class ViewMessageResponseHeader(Header, frozen=True, kw_only=True):
    """A header without fields."""
