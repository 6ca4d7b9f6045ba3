"""The bit map of a message in the consume queue extension (Java class `CommitLogDispatcherCalcBitMap`).

Needs enableCalcFilterBitMap, and enableConsumeQueueExt for the extension itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.filters.table import FilterTable


class BitMaps:
    """Makes the bit maps of messages from the filters of their topics."""

    def __init__(self, table: FilterTable) -> None:
        self._table = table

    def of(self, topic: str, properties: Mapping[str, str]) -> bytes | None:
        """The bits of every group whose filter, dead or alive, the message passes; None when the topic has
        no filter."""
        filters = self._table.of_topic(topic)
        if not filters:
            return None
        return self._table.bloom.bit_map(
            one.bloom
            for one in filters
            if one.predicate is not None and one.bloom is not None and one.predicate.matches(properties)
        )
