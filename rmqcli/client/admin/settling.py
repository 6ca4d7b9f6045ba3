"""Seeing whether running consumers have moved as they were told.

A client that is moved stores the new offset once, then stores what it consumes from there: with every pull, which can be some
milliseconds later. Java's clients first wait 10 s for listeners, ours until these have ended. So a queue has moved when its
committed offset is the new one or lies between that and the old one. When a short replay is over before anybody looks, the
committed offset is the old one again; then only the client that holds the queue can tell: it has consumed something there since
it was told, although it had had all there was, and nothing new came. (It knows better than the broker how far it had come: it
tells the broker some seconds later.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import trio

from codec.message_queue import MessageQueue
from rmqcli.client.admin.base import gather
from rmqcli.client.admin.groups import GroupAdmin
from rmqcli.client.admin.values import QueueReset, QueueResetResult, ResetPlan
from rmqcli.client.errors import ClientError

__all__ = ["Activity", "SettlingAdmin"]

POLL = 0.5  # seconds between two looks at the committed offsets
Failures = dict[MessageQueue, ClientError]


class Activity(NamedTuple):
    """Who holds a queue, the offset it had come to, and when it last consumed there (epoch ms of its clock)."""

    client_id: str
    offset: int
    consumed: int


class SettlingAdmin(GroupAdmin):
    """Calls that wait for running consumers."""

    async def activity(self, group: str, client_ids: Collection[str]) -> dict[MessageQueue, Activity]:
        """What the clients tell of their queues (code 307); clients that do not tell are left out."""
        infos, _ = await self.running_infos(group, client_ids)
        return {
            queue: Activity(client_id, held.commit_offset, held.last_consume_timestamp)
            for client_id, info in infos.items()
            for queue, held in info.mq_table.items()
        }

    async def settled(
        self,
        plan: ResetPlan,
        failures: Failures,
        before: Mapping[MessageQueue, Activity],
        seconds: float,
    ) -> list[QueueResetResult]:
        """Looks until all queues are seen to have moved, for so long. `before` is the activity when they were told."""
        moved: set[MessageQueue] = set()
        found: dict[MessageQueue, int | None] = {}
        waiting = [reset for reset in plan.queues if reset.queue not in failures]
        deadline = trio.current_time() + seconds
        while waiting:
            seen, _ = await gather(
                [reset.queue for reset in waiting], lambda queue: self.committed(queue, plan.group)
            )
            found |= seen
            moved |= {reset.queue for reset in waiting if _shows(reset, seen.get(reset.queue))}
            asked = {r.queue: r for r in waiting if r.queue not in moved and _had_all(r, before.get(r.queue))}
            moved |= await self._consumed_again(plan.group, asked, before)
            waiting = [reset for reset in waiting if reset.queue not in moved]
            if trio.current_time() >= deadline:
                break
            if waiting:
                await trio.sleep(POLL)
        return [
            QueueResetResult(
                reset.queue,
                reset.new,
                found.get(reset.queue),
                reset.queue in moved,
                failures.get(reset.queue),
            )
            for reset in plan.queues
        ]

    async def _consumed_again(
        self, group: str, asked: Mapping[MessageQueue, QueueReset], before: Mapping[MessageQueue, Activity]
    ) -> set[MessageQueue]:
        now = await self.activity(group, {before[queue].client_id for queue in asked})
        active = [queue for queue in asked if queue in now and _went_on(before[queue], now[queue])]
        ends, _ = await gather(active, self.max_offset)
        return {queue for queue, end in ends.items() if end == asked[queue].max_offset}


def _went_on(before: Activity, now: Activity) -> bool:
    return now.client_id == before.client_id and now.consumed > before.consumed


def _had_all(reset: QueueReset, before: Activity | None) -> bool:
    """Whether whatever is consumed now must be consumed again."""
    return before is not None and before.offset == reset.max_offset > reset.new


def _shows(reset: QueueReset, offset: int | None) -> bool:
    """Whether the committed offset by itself shows that the reset was carried out."""
    if offset is None or offset < reset.new:
        return False
    return offset == reset.new or reset.old is None or offset < reset.old or reset.new > reset.old
