"""Headers of committed offsets, the ends of a queue, search by time (epoch ms), and offset resets."""

from __future__ import annotations

from codec.headers.base import Header, Int32, Int64, RpcRequestHeader


class CloneGroupOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """CLONE_GROUP_OFFSET (314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class GetConsumerStatusRequestHeader(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_STATUS_FROM_CLIENT (221), INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223)."""

    topic: str
    group: str
    client_addr: str | None = None


class GetEarliestMsgStoretimeRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """GET_EARLIEST_MSG_STORETIME (32)."""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeResponseHeader(Header, frozen=True, kw_only=True):
    """GET_EARLIEST_MSG_STORETIME (32)."""

    timestamp: Int64


class GetMaxOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """GET_MAX_OFFSET (30)."""

    topic: str
    queue_id: Int32
    committed: bool | None = None


class GetMaxOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """GET_MAX_OFFSET (30)."""

    offset: Int64


class GetMinOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """GET_MIN_OFFSET (31)."""

    topic: str
    queue_id: Int32


class GetMinOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """GET_MIN_OFFSET (31)."""

    offset: Int64


class QueryConsumerOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """QUERY_CONSUMER_OFFSET (14)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """QUERY_CONSUMER_OFFSET (14)."""

    offset: Int64


class QueryCorrectionOffsetHeader(Header, frozen=True, kw_only=True):
    """QUERY_CORRECTION_OFFSET (308)."""

    compare_group: str
    topic: str
    filter_groups: str | None = None


class ResetOffsetRequestHeader(Header, frozen=True, kw_only=True):
    """RESET_CONSUMER_CLIENT_OFFSET (220), INVOKE_BROKER_TO_RESET_OFFSET (222)."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    offset: Int64 | None = None
    queue_id: Int32 | None = None


class SearchOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """SEARCH_OFFSET_BY_TIMESTAMP (29)."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None


class SearchOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """SEARCH_OFFSET_BY_TIMESTAMP (29)."""

    offset: Int64


class UpdateConsumerOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """UPDATE_CONSUMER_OFFSET (15)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class UpdateConsumerOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """UPDATE_CONSUMER_OFFSET (15)."""
