"""Half messages: how they are written, ended, and checked with their producers when nobody ends them."""

from __future__ import annotations

from broker.services.transactions.half import end_half, final_message, half_again, prepare, retire
from broker.services.transactions.scan import check_half_messages, check_transactions

__all__ = [
    "check_half_messages",
    "check_transactions",
    "end_half",
    "final_message",
    "half_again",
    "prepare",
    "retire",
]
