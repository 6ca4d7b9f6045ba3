"""Headers of half messages: the end of a transaction, its check, and the resumption of checks.

`commit_or_rollback` is a transaction state of `MessageSysFlag`, or 0 for unknown.
"""

from __future__ import annotations

from rmqcli.codec.headers.base import Header, Int32, Int64, RpcRequestHeader


class CheckTransactionStateRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None


class EndTransactionRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None
    topic: str | None = None


class EndTransactionResponseHeader(Header, frozen=True, kw_only=True):
    """A header without fields."""


class ResumeCheckHalfMessageRequestHeader(Header, frozen=True, kw_only=True):
    msg_id: str | None = None
    topic: str | None = None
