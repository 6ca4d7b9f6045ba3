"""Headers of committed offsets, the ends of a queue, search by time (epoch ms), and resets."""

from __future__ import annotations

from rmqcli.codec.headers.base import Header, Int32, Int64, RpcRequestHeader


class CloneGroupOffsetRequestHeader(Header, frozen=True, kw_only=True):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class GetConsumerStatusRequestHeader(Header, frozen=True, kw_only=True):
    topic: str
    group: str
    client_addr: str | None = None


class GetEarliestMsgStoretimeRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeResponseHeader(Header, frozen=True, kw_only=True):
    timestamp: Int64


class GetMaxOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    topic: str
    queue_id: Int32
    committed: bool | None = None


class GetMaxOffsetResponseHeader(Header, frozen=True, kw_only=True):
    offset: Int64


class GetMinOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    topic: str
    queue_id: Int32


class GetMinOffsetResponseHeader(Header, frozen=True, kw_only=True):
    offset: Int64


class QueryConsumerOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponseHeader(Header, frozen=True, kw_only=True):
    offset: Int64


class QueryCorrectionOffsetHeader(Header, frozen=True, kw_only=True):
    compare_group: str
    topic: str
    filter_groups: str | None = None


class ResetOffsetRequestHeader(Header, frozen=True, kw_only=True):
    topic: str
    group: str
    timestamp: Int64
    is_force: bool = False
    offset: Int64 | None = None
    queue_id: Int32 | None = None


class SearchOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None


class SearchOffsetResponseHeader(Header, frozen=True, kw_only=True):
    offset: Int64


class UpdateConsumerOffsetRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class UpdateConsumerOffsetResponseHeader(Header, frozen=True, kw_only=True):
    """A header without fields."""
