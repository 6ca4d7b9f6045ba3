"""Headers of half messages: the end of a transaction, the check-back, checks resumed.

`commit_or_rollback`: 8 commit, 12 rollback, 0 unknown.
"""

from __future__ import annotations

from codec.headers.base import Header, Int32, Int64, RpcRequestHeader


class CheckTransactionStateRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """CHECK_TRANSACTION_STATE (39)."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None


class EndTransactionRequestHeader(RpcRequestHeader, frozen=True, kw_only=True):
    """END_TRANSACTION (37)."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None
    topic: str | None = None


class EndTransactionResponseHeader(Header, frozen=True, kw_only=True):
    """END_TRANSACTION (37)."""


class ResumeCheckHalfMessageRequestHeader(Header, frozen=True, kw_only=True):
    """RESUME_CHECK_HALF_MESSAGE (323)."""

    msg_id: str | None = None
    topic: str | None = None
