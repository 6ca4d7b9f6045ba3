"""Finds who writes to a topic now: brokers know the producers that are connected, but not what they send to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from codec.bodies.stats import TopicOffset
from codec.message_queue import MessageQueue
from rmqcli.client import Admin, ClientError, PullConsumer, PullStatus
from rmqcli.client.admin.area import gather
from rmqcli.render.text import duration

ACTIVE_MS: Final = 600_000
"""Milliseconds since the last message of a topic after which nobody counts as writing to it."""
LAST_MESSAGES: Final = 32
"""Messages of each queue whose senders are looked up."""
MOST_QUEUES: Final = 64
"""Queues that are looked at, those written last."""


class Writing(NamedTuple):
    """`ago` seconds have passed since the last message; `by` are producers, or addresses of those that have
    gone.
    """

    ago: float
    by: tuple[str, ...]

    def __str__(self) -> str:
        by = f", by {', '.join(self.by)}" if self.by else ""
        return f"last {duration(self.ago)} ago{by}"


async def writing(admin: Admin, stats: Mapping[MessageQueue, TopicOffset]) -> Writing | None:
    """Return who sent the last messages of a topic, as far as brokers answer; None if they are old."""
    now = admin.instance.now_ms()
    recent = [one for one, ends in stats.items() if now - ends.last_update_timestamp < ACTIVE_MS]
    recent.sort(key=lambda one: -stats[one].last_update_timestamp)
    if not recent:
        return None
    last = stats[recent[0]].last_update_timestamp
    hosts, _ = await gather(recent[:MOST_QUEUES], lambda one: _senders(admin, one, stats[one], now))
    found = {host for senders in hosts.values() for host in senders}
    known: dict[str, str] = {}
    with suppress(ClientError):  # older brokers do not list producers
        producers = await admin.clients.producers(failures={})
        known = {one.address: f"{one.client_id} ({one.group})" for one in producers}
    return Writing(max(0, now - last) / 1000, tuple(sorted({known.get(host, host) for host in found})))


async def _senders(admin: Admin, queue: MessageQueue, ends: TopicOffset, now: int) -> set[str]:
    consumer = PullConsumer(instance=admin.instance)
    begin = max(ends.min_offset, ends.max_offset - LAST_MESSAGES)
    result = await consumer.pull(queue, begin, LAST_MESSAGES)
    if result.status is not PullStatus.FOUND:
        return set()
    return {one.born_host for one in result.messages if now - one.store_timestamp < ACTIVE_MS}
