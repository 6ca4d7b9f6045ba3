"""Messages by key (Java `DefaultMessageStore.queryMessage`).

What the index finds is not compared with the key: readers filter hash collisions. Offsets whose records are gone are left
out; Java's second and third round for the case that all are gone find nothing either.
"""

from __future__ import annotations

from broker.store.commit_log import CommitLog
from broker.store.index import Index
from broker.store.values import QueryResult

__all__ = ["query_messages"]


def query_messages(
    log: CommitLog, index: Index | None, topic: str, key: str, limit: int, begin: int, end: int
) -> QueryResult:
    """At most `limit` records stored in [begin, end] ms (second precision), by ascending commit-log offset."""
    hits = index.query(topic, key, limit, begin, end) if index is not None else None
    if hits is None or not hits.offsets:
        return QueryResult([], 0, 0)
    records = [record for offset in sorted(hits.offsets) if (record := log.record(offset)) is not None]
    return QueryResult(records, hits.last_timestamp, hits.last_offset)
