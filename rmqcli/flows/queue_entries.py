"""Entries of consume queues, as brokers show them (QUERY_CONSUME_QUEUE)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from codec.bodies.stats import ConsumeQueueData
from codec.message_queue import MessageQueue
from rmqcli.client import Admin
from rmqcli.flows.reading import Span

AT_ONCE = 1000
"""Entries of one request."""


class Entry(NamedTuple):
    """One entry and its offset in the queue."""

    queue: MessageQueue
    offset: int
    data: ConsumeQueueData


async def entries_of(admin: Admin, span: Span, group: str | None = None) -> AsyncIterator[Entry]:
    """Yield the entries of a span; fewer if the queue was shortened meanwhile."""
    offset = span.begin
    while offset < span.end:
        count = min(AT_ONCE, span.end - offset)
        found = (await admin.topics.entries(span.queue, offset, count, group=group)).queue_data or []
        for place, data in enumerate(found[:count]):
            yield Entry(span.queue, offset + place, data)
        if not found:
            return
        offset += len(found)
