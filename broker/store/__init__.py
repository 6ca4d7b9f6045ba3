"""The message store. Java's broker and this one can open each other's files."""

from __future__ import annotations

from rmqcli.broker.errors import StoreDamaged, StoreError, StoreLocked, StoreSizeMismatch
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.store import MessageStore, open_store
from rmqcli.broker.store.values import (
    AppendResult,
    ArrivalListener,
    GetResult,
    GetStatus,
    PutStatus,
    QueryResult,
    StoreMessage,
)

__all__ = [
    "AppendResult",
    "ArrivalListener",
    "GetResult",
    "GetStatus",
    "MessageStore",
    "PutStatus",
    "QueryResult",
    "StoreConfig",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "StoreMessage",
    "StoreSizeMismatch",
    "open_store",
]
