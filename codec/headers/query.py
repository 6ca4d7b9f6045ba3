"""Headers of reading stored messages by key (times are epoch ms) or by commit-log offset."""

from __future__ import annotations

from codec.headers.base import Header, Int32, Int64


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
