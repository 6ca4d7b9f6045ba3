"""Entries of consume queues, as brokers show them (QUERY_CONSUME_QUEUE)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from rmqcli.client import UNREACHED, Admin, ClientError
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.bodies.stats import ConsumeQueueData
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.selector.tags import ALL
from rmqcli.flows.reading import Span

_TAG_TYPES = ("", "TAG")
AT_ONCE = 1000
"""Entries of one request."""


class Entry(NamedTuple):
    """One entry and its offset in the queue.

    `accepted` is True if the filter of the group accepts the message; None if that is unknown.
    """

    queue: MessageQueue
    offset: int
    data: ConsumeQueueData
    accepted: bool | None = None


async def read_entries(
    admin: Admin,
    spans: Iterable[Span],
    group: str | None,
    limit: int | None,
    failures: dict[str, ClientError],
) -> list[Entry]:
    """Return the entries of the spans, at most `limit`; add the errors of brokers that do not respond to
    `failures`.
    """
    found: list[Entry] = []
    for span in spans:
        if span.queue.broker_name in failures:
            continue
        try:
            async for entry in entries_of(admin, span, group):
                if len(found) == limit:
                    return found
                found.append(entry)
        except UNREACHED as error:
            failures[span.queue.broker_name] = error
    return found


async def entries_of(admin: Admin, span: Span, group: str | None = None) -> AsyncIterator[Entry]:
    """Yield the entries of a span; fewer if the queue was shortened meanwhile."""
    offset = span.begin
    while offset < span.end:
        count = min(AT_ONCE, span.end - offset)
        answer = await admin.topics.entries(span.queue, offset, count, group=group)
        # No more than requested, even if a broker returns more.
        found = (answer.queue_data or [])[:count]
        for place, data in enumerate(found):
            yield Entry(span.queue, offset + place, data, accepted(answer.subscription_data, data))
        if not found:
            return
        offset += len(found)


def accepted(subscription: SubscriptionData | None, data: ConsumeQueueData) -> bool | None:
    """Return True if a subscription accepts an entry; None without a running group.

    A broker judges only entries with an extension (AdminBrokerProcessor.queryConsumeQueue); here, tags are
    compared by their codes; for SQL92 without an extension, the result is unknown.
    """
    if subscription is None or data.extend_data_json is not None:
        return None if subscription is None else data.eval
    if subscription.expression_type not in _TAG_TYPES:
        return None
    return subscription.sub_string == ALL or data.tags_code in subscription.code_set
