"""Confirmation that running consumers have moved to the offsets of a reset.

A client that moves commits the new offset once, then its progress from there with every pull, perhaps
milliseconds later. Java's clients first wait 10 s for listeners, ours until these have ended. So a queue has
moved when its offset is the new one, or lies between the new and the old one. Whose offset that is depends on
the broker. One of 4.x writes nothing itself: its committed offset is that of a client. One of 5.x writes the
new offset at once, whatever its clients do, and a client that does not see the reset overwrites it seconds
later: only the position of the client counts, as it reports it (307, else 223).

A short replay may be over before the first look; the offset is then the old one again, and only the owner of
the queue has evidence: it has consumed there since the reset, although it had reached the end before and no
message was added. (The owner's position is ahead of the broker's by some seconds.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import trio

from codec.message_queue import MessageQueue
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import QueueReset, QueueResetResult, ResetPlan
from rmqcli.client.errors import ClientError

if TYPE_CHECKING:
    from rmqcli.client.admin.admin import Admin
    from rmqcli.client.admin.clients import Activity

POLL = 0.5  # seconds between two looks at the offsets
Failures = dict[MessageQueue, ClientError]


class Seen(NamedTuple):
    """The offset of a queue and the client that has it there; None: the committed offset."""

    offset: int | None
    client: str | None = None


async def settled(
    admin: Admin,
    plan: ResetPlan,
    failures: Failures,
    before: Mapping[MessageQueue, Activity],
    seconds: float,
    *,
    brokers_write: bool,
) -> list[QueueResetResult]:
    """Poll for up to `seconds` until every queue that changes has moved. `before` is the activity at the
    reset; with `brokers_write`, committed offsets prove nothing.
    """
    look = _positions if brokers_write else _committed
    moved: set[MessageQueue] = set()
    found: dict[MessageQueue, Seen] = {}
    waiting = [reset for reset in plan.changed if reset.queue not in failures]
    deadline = trio.current_time() + seconds
    while waiting:
        seen = await look(admin, plan, [reset.queue for reset in waiting])
        found |= seen
        moved |= {
            r.queue for r in waiting if _shows(r, seen.get(r.queue, _NOTHING), brokers_write=brokers_write)
        }
        asked = {r.queue: r for r in waiting if r.queue not in moved and _had_all(r, before.get(r.queue))}
        moved |= await _consumed_again(admin, plan.group, asked, before)
        waiting = [reset for reset in waiting if reset.queue not in moved]
        if trio.current_time() >= deadline:
            break
        if waiting:
            await trio.sleep(POLL)
    return [_result(reset, found.get(reset.queue, _NOTHING), moved, failures) for reset in plan.changed]


_NOTHING = Seen(None)


def _result(
    reset: QueueReset, seen: Seen, moved: Collection[MessageQueue], failures: Failures
) -> QueueResetResult:
    queue = reset.queue
    return QueueResetResult(
        queue, reset.new, seen.offset, queue in moved, failures.get(queue), client=seen.client
    )


async def _committed(
    admin: Admin, plan: ResetPlan, queues: Collection[MessageQueue]
) -> dict[MessageQueue, Seen]:
    offsets, _ = await gather(queues, lambda queue: admin.offsets.committed(queue, plan.group))
    return {queue: Seen(offset) for queue, offset in offsets.items()}


async def _positions(
    admin: Admin, plan: ResetPlan, queues: Collection[MessageQueue]
) -> dict[MessageQueue, Seen]:
    """Return the positions of the clients; the committed offset of a queue that no client reports."""
    held = await admin.clients.activity(plan.group, plan.clients)
    found = {queue: Seen(held[queue].offset, held[queue].client_id) for queue in queues if queue in held}
    if len(found) < len(queues):
        tables = await admin.clients.held_offsets(plan.group, plan.topic, plan.clients)
        told = {
            queue: Seen(offset, name) for name, table in tables.items() for queue, offset in table.items()
        }
        found |= {queue: told[queue] for queue in queues if queue in told and queue not in found}
    return found | await _committed(admin, plan, [queue for queue in queues if queue not in found])


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
    """Return True if anything that the owner consumes after the reset is a replay."""
    return before is not None and before.offset == reset.max_offset > reset.new


def _shows(reset: QueueReset, seen: Seen, *, brokers_write: bool) -> bool:
    """Return True if the offset by itself proves the reset."""
    offset = seen.offset
    if offset is None or offset < reset.new or (brokers_write and seen.client is None):
        return False
    return offset == reset.new or reset.old is None or offset < reset.old or reset.new > reset.old
