"""The message store: files that Java's broker and this one can take over from each other."""

from __future__ import annotations

from .config import StoreConfig
from .errors import StoreDamaged, StoreError, StoreLocked, StoreSizeMismatch
from .store import MessageStore, open_store
from .tables_file import load_table, save_table
from .values import (
    AppendResult,
    Arrival,
    ArrivalListener,
    GetResult,
    GetStatus,
    PutStatus,
    QueryResult,
    StoreMessage,
)

__all__ = [
    "AppendResult",
    "Arrival",
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
    "load_table",
    "open_store",
    "save_table",
]
