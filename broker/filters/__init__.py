"""SQL92 subscriptions on the broker: the filters of groups, and the messages that they select. No I/O."""

from __future__ import annotations

from broker.filters.compiler import Compiler
from broker.filters.entry import ConsumerFilter
from broker.filters.selection import SqlSelection, is_tag_type
from broker.filters.table import FilterTable

__all__ = ["Compiler", "ConsumerFilter", "FilterTable", "SqlSelection", "is_tag_type"]
