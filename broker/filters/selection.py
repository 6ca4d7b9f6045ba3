"""The messages that a pull with a SQL92 subscription selects (Java classes `ExpressionMessageFilter`,
`ExpressionForRetryMessageFilter`).

The bit map in the consume-queue extension excludes some messages; the properties of the record decide about
the others. A message of a retry topic whose original topic has no compiled filter is selected, as in Java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from rmqcli.broker.filters.entry import ConsumerFilter
from rmqcli.codec.names import RETRY_PREFIX
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.property_names import PropertyName
from rmqcli.codec.records.reading import scan_record
from rmqcli.codec.store.consume_queue import ExtensionEntry

if TYPE_CHECKING:
    from rmqcli.broker.filters.table import FilterTable


def is_tag_type(expression_type: str | None) -> bool:
    """Return True for a subscription by tags (Java `ExpressionType.isTagType`)."""
    return not expression_type or expression_type == "TAG"


class SqlSelection:
    """The selection of one pull. With `retry_topics` (filterSupportRetry), filters of original topics are
    used."""

    def __init__(
        self, filters: FilterTable, topic: str, one: ConsumerFilter | None, *, retry_topics: bool = False
    ) -> None:
        self._filters = filters
        self._filter = one
        self._bits = one.bloom if one is not None and filters.bloom.owns(one.bloom) else None
        self._retry_group = (
            topic.removeprefix(RETRY_PREFIX) if retry_topics and topic.startswith(RETRY_PREFIX) else None
        )

    def accepts_extension(self, entry: ExtensionEntry | None) -> bool:
        """Return False if the bit map of a queue entry excludes the message."""
        one, bits = self._filter, self._bits
        if one is None or one.predicate is None or bits is None:
            return True
        if entry is None or not one.knew(entry.store_timestamp) or len(entry.bit_map) * 8 != bits.bit_num:
            return True
        return self._filters.bloom.may_hold(entry.bit_map, bits)

    def accepts(self, properties: Mapping[str, str]) -> bool:
        """Return True if a message with these properties is selected."""
        one = self._filter
        if self._retry_group is not None:
            one = self._filters.get(properties.get(PropertyName.RETRY_TOPIC, ""), self._retry_group)
        return one is None or one.predicate is None or one.predicate.matches(properties)

    def accepts_record(self, record: memoryview) -> bool:
        """Return True if a stored record is selected; for `MessageStore.get`. Raises CorruptionError."""
        return self.accepts(decode_properties(scan_record(record).properties))


class Wanted(NamedTuple):
    """The messages that a pull or pop selects: by tag codes (None: all), and by properties."""

    codes: frozenset[int] | None = None
    sql: SqlSelection | None = None


EVERYTHING = Wanted()
