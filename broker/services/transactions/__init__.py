"""Transactions: half messages, their ends, and checks of pending ones with their producers."""

from __future__ import annotations

from rmqcli.broker.services.transactions.checks import check_half_messages, check_transactions
from rmqcli.broker.services.transactions.half import (
    end_half,
    final_message,
    half_again,
    prepare,
    record_all_ends,
    record_ends,
    retire,
)

__all__ = [
    "check_half_messages",
    "check_transactions",
    "end_half",
    "final_message",
    "half_again",
    "prepare",
    "record_all_ends",
    "record_ends",
    "retire",
]
