"""Headers of the name server's key-value table."""

from __future__ import annotations

from codec.headers.base import Header


class DeleteKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    namespace: str
    key: str


class GetKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    namespace: str
    key: str


class GetKVConfigResponseHeader(Header, frozen=True, kw_only=True):
    value: str | None = None


class GetKVListByNamespaceRequestHeader(Header, frozen=True, kw_only=True):
    namespace: str


class PutKVConfigRequestHeader(Header, frozen=True, kw_only=True):
    namespace: str
    key: str
    value: str
