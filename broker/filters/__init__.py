"""SQL92 subscriptions on the broker: the filters of groups, and the messages that they select. No I/O."""

from __future__ import annotations

from rmqcli.broker.filters.compiler import Compiler
from rmqcli.broker.filters.entry import ConsumerFilter
from rmqcli.broker.filters.selection import EVERYTHING, SqlSelection, Wanted, is_tag_type
from rmqcli.broker.filters.table import FilterTable

__all__ = [
    "EVERYTHING",
    "Compiler",
    "ConsumerFilter",
    "FilterTable",
    "SqlSelection",
    "Wanted",
    "is_tag_type",
]
