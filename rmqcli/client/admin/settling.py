"""Confirmation that running consumers have moved to the offsets of a reset.

A client that moves commits the new offset once, then its progress from there with every pull, perhaps
milliseconds later. Java's clients first wait 10 s for listeners, ours until these have ended. So a queue has
moved when its committed offset is the new one, or lies between the new and the old one. A short replay may be
over before the first look; the committed offset is then the old one again, and only the owner of the queue
has evidence: it has consumed there since the reset, although it had reached the end before and no message was
added. (The owner's position is ahead of the broker's by some seconds.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from codec.message_queue import MessageQueue
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import QueueReset, QueueResetResult, ResetPlan
from rmqcli.client.errors import ClientError

if TYPE_CHECKING:
    from rmqcli.client.admin.admin import Admin
    from rmqcli.client.admin.clients import Activity

POLL = 0.5  # seconds between two reads of the committed offsets
Failures = dict[MessageQueue, ClientError]


async def settled(
    admin: Admin, plan: ResetPlan, failures: Failures, before: Mapping[MessageQueue, Activity], seconds: float
) -> list[QueueResetResult]:
    """Polls for up to `seconds` until every queue has moved. `before` is the activity at the reset."""
    moved: set[MessageQueue] = set()
    found: dict[MessageQueue, int | None] = {}
    waiting = [reset for reset in plan.queues if reset.queue not in failures]
    deadline = trio.current_time() + seconds
    while waiting:
        seen, _ = await gather(
            [reset.queue for reset in waiting], lambda queue: admin.offsets.committed(queue, plan.group)
        )
        found |= seen
        moved |= {reset.queue for reset in waiting if _shows(reset, seen.get(reset.queue))}
        asked = {r.queue: r for r in waiting if r.queue not in moved and _had_all(r, before.get(r.queue))}
        moved |= await _consumed_again(admin, plan.group, asked, before)
        waiting = [reset for reset in waiting if reset.queue not in moved]
        if trio.current_time() >= deadline:
            break
        if waiting:
            await trio.sleep(POLL)
    return [
        QueueResetResult(
            reset.queue, reset.new, found.get(reset.queue), reset.queue in moved, failures.get(reset.queue)
        )
        for reset in plan.queues
    ]


async def _consumed_again(
    admin: Admin,
    group: str,
    asked: Mapping[MessageQueue, QueueReset],
    before: Mapping[MessageQueue, Activity],
) -> set[MessageQueue]:
    now = await admin.clients.activity(group, {before[queue].client_id for queue in asked})
    active = [queue for queue in asked if queue in now and _consumed_since(before[queue], now[queue])]
    ends, _ = await gather(active, admin.offsets.max_offset)
    return {queue for queue, end in ends.items() if end == asked[queue].max_offset}


def _consumed_since(before: Activity, now: Activity) -> bool:
    return now.client_id == before.client_id and now.consumed > before.consumed


def _had_all(reset: QueueReset, before: Activity | None) -> bool:
    """True if anything that the owner consumes after the reset is a replay."""
    return before is not None and before.offset == reset.max_offset > reset.new


def _shows(reset: QueueReset, offset: int | None) -> bool:
    """True if the committed offset by itself proves the reset."""
    if offset is None or offset < reset.new:
        return False
    return offset == reset.new or reset.old is None or offset < reset.old or reset.new > reset.old
