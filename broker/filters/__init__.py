"""SQL92 subscriptions on the broker: who filters what, kept over restarts, and what it lets through. No I/O."""

from __future__ import annotations

from broker.filters.bit_map import BitMaps
from broker.filters.entry import ConsumerFilter, compiled
from broker.filters.selection import SqlSelection, is_tag_type
from broker.filters.table import FilterTable

__all__ = ["BitMaps", "ConsumerFilter", "FilterTable", "SqlSelection", "compiled", "is_tag_type"]
