"""Headers of the name server's key-value table."""

from __future__ import annotations

from codec.headers.base import Header


class DeleteKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    """DELETE_KV_CONFIG (102)."""

    namespace: str
    key: str


class GetKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    """GET_KV_CONFIG (101)."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(Header, frozen=True, kw_only=True):
    """GET_KV_CONFIG (101)."""

    value: str | None = None


class GetKVListByNamespaceRequestHeader(Header, frozen=True, kw_only=True):
    """GET_KVLIST_BY_NAMESPACE (219)."""

    namespace: str


class PutKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    """PUT_KV_CONFIG (100)."""

    namespace: str
    key: str
    value: str
