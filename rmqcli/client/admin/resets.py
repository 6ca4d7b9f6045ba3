"""Resets of a group's offsets: a plan that changes nothing, then its application.

Offline: every offset is committed (15) and read back (14). 5.x ignores a commit between one of its own resets
and the next pull, so such a queue is reset like those of running consumers. Online: running consumers would
overwrite a commit within seconds, so the broker must notify them (222, which sends 220). A 4.x broker accepts
one time for all write queues of the topic, which covers start (time 0), end (-1) and a time; it writes
nothing itself, and Java's clients wait 10 s before they move (see `settled`). A 5.x broker accepts single
queues and offsets and writes them at once; the broker of `rmq up` accepts them and notifies the clients. Both
report the property useServerSideResetOffset. A broker without it would ignore these fields and move the whole
topic. A plan that the broker cannot carry out raises OnlineResetUnsupported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import trio

from rmqcli.client.admin.area import gather, gather_all
from rmqcli.client.admin.clients import Activity
from rmqcli.client.admin.values import QueueReset, QueueResetResult, ResetPlan, ResetResult, ResetTarget
from rmqcli.client.errors import (
    ClientError,
    ConsumerOffline,
    InvalidRequest,
    NotFound,
    OnlineResetUnsupported,
)
from rmqcli.codec.bodies.heartbeat import ConsumeType
from rmqcli.codec.headers.offsets import ResetOffsetRequestHeader
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.brokers import GET_BROKER_CONFIG
from rmqcli.codec.operations.offsets import INVOKE_BROKER_TO_RESET_OFFSET
from rmqcli.codec.operations.routes import GET_BROKER_CLUSTER_INFO, GET_ROUTEINFO_BY_TOPIC

if TYPE_CHECKING:
    from rmqcli.client.admin.admin import Admin


# Confirmation that running consumers have moved to the offsets of a reset.
#
# A client that moves commits the new offset once, then its progress from there with every pull, perhaps
# milliseconds later. Java's clients first wait 10 s for listeners, ours until these have ended. So a queue
# has moved when its offset is the new one, or is between the new and the old one. Whose offset that is
# depends on the broker. One of 4.x writes nothing itself: its committed offset is that of a client. One of
# 5.x writes the new offset at once, whatever its clients do, and a client that does not see the reset
# overwrites it seconds later: only the position of the client counts, as it reports it (307, else 223).
# Clients that pop hold no queue, and nobody overwrites the offset of the broker: its reply proves the reset,
# even if they consume again at once. gRPC clients report no queues; the broker reports that they pop (203).
#
# A short replay may be over before the first poll; the offset is then the old one again, and only the owner
# of the queue has evidence: it has consumed there since the reset, although it had reached the end before and
# no message was added. (The owner's position is ahead of the broker's by some seconds.)

POLL = 0.5  # seconds between two reads of the offsets
Failures = dict[MessageQueue, ClientError]


class Seen(NamedTuple):
    """The offset of a queue and the client that reported it; with None, it is the committed offset.

    `is_held` is False if no client can have this queue: all report positions without it, or pop.
    """

    offset: int | None
    client: str | None = None
    is_held: bool = True


async def settled(
    admin: Admin,
    plan: ResetPlan,
    failures: Failures,
    before: Mapping[MessageQueue, Activity],
    seconds: float,
    *,
    brokers_write: bool,
    pops: bool,
) -> list[QueueResetResult]:
    """Poll for up to `seconds` until every changing queue has moved.

    `before` is the activity at the time of the reset. With `brokers_write`, committed offsets prove nothing
    about the queues that a client holds, and the clients of a group that `pops` hold none.
    """
    look = _positions if brokers_write and not pops else _committed
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
    return {queue: Seen(offset, is_held=False) for queue, offset in offsets.items()}


async def _positions(
    admin: Admin, plan: ResetPlan, queues: Collection[MessageQueue]
) -> dict[MessageQueue, Seen]:
    """Return the positions of the clients, or the committed offset of a queue that no client reports."""
    held, silent = await admin.clients.activities(plan.group, plan.clients)
    found = {queue: Seen(held[queue].offset, held[queue].client_id) for queue in queues if queue in held}
    if len(found) < len(queues):
        tables = await admin.clients.held_offsets(plan.group, plan.topic, plan.clients)
        told = {
            queue: Seen(offset, name) for name, table in tables.items() for queue, offset in table.items()
        }
        found |= {queue: told[queue] for queue in queues if queue in told and queue not in found}
    committed = await _committed(admin, plan, [queue for queue in queues if queue not in found])
    return found | {queue: seen._replace(is_held=bool(silent)) for queue, seen in committed.items()}


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
    """Return True if any message that the owner consumes after the reset must be a replayed one."""
    return before is not None and before.offset == reset.max_offset > reset.new


def _shows(reset: QueueReset, seen: Seen, *, brokers_write: bool) -> bool:
    """Return True if the offset alone proves the reset."""
    offset = seen.offset
    if offset is None or offset < reset.new:
        return False
    if brokers_write and seen.client is None:
        return not seen.is_held
    return offset == reset.new or reset.old is None or offset < reset.old or reset.new > reset.old


SERVER_SIDE_RESET = "useServerSideResetOffset=true"
_WHOLE_TOPIC_TIMES = {"start": 0, "end": -1}


class Resets:
    """The plan of a reset, and its application; see `OffsetAdmin.plan_reset` and `OffsetAdmin.reset`."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._offsets = admin.offsets
        self._instance = admin.instance

    async def plan(
        self,
        group: str,
        topic: str,
        target: ResetTarget,
        queue_id: int | None,
        queues: Collection[MessageQueue] | None,
    ) -> ResetPlan:
        chosen = await self._chosen(topic, target, queue_id, queues)
        clients = await self._admin.clients.consumer_ids(group, topic)
        held = await self._admin.clients.activity(group, clients)
        resets = await gather_all(
            chosen, lambda queue: self._plan_queue(group, queue, target, held.get(queue))
        )
        plan = await self._without_zeros(ResetPlan(group, topic, target, tuple(resets.values()), clients))
        if plan.online:
            await self._online_way(plan)
        return plan

    async def _without_zeros(self, plan: ResetPlan) -> ResetPlan:
        """Replace the 0 that brokers of 4.9 return for a group without offsets on the topic with None."""
        if not any(reset.old == 0 for reset in plan.queues):
            return plan
        failures: dict[str, ClientError] = {}
        known = await self._offsets.stats(plan.group, failures=failures)
        if failures or any(queue.topic == plan.topic for queue in known.offset_table):
            return plan
        queues = [reset._replace(old=None) if reset.old == 0 else reset for reset in plan.queues]
        return plan._replace(queues=tuple(queues))

    async def apply(self, plan: ResetPlan, settle: float) -> ResetResult:
        if not plan.online or not plan.changed:
            results = await self._commit_all(plan)
            return ResetResult(plan.group, plan.topic, plan.online, tuple(results))
        send = await self._online_way(plan)
        await self._commit_positions(plan)
        # Read before the reset is sent, so that consumption after it can be told apart.
        before = await self._admin.clients.activity(plan.group, plan.clients) if plan.replayed else {}
        writes, pops = await self._brokers_write(plan), await self._pops(plan.group)
        failures = await send(plan)
        results = await settled(self._admin, plan, failures, before, settle, brokers_write=writes, pops=pops)
        return ResetResult(plan.group, plan.topic, True, tuple(results))

    async def _chosen(
        self, topic: str, target: ResetTarget, queue_id: int | None, queues: Collection[MessageQueue] | None
    ) -> list[MessageQueue]:
        known = (await self._instance.route(topic)).subscribe
        wanted = known if queues is None else queues
        if target.exact is not None:
            wanted = [queue for queue in wanted if queue in target.exact]
        chosen = [queue for queue in known if queue in wanted and queue_id in (None, queue.queue_id)]
        if not chosen:
            what = "such queue" if queue_id is None else f"queue {queue_id}"
            raise self._offsets.absent(NotFound, f"topic {topic} has no {what}", GET_ROUTEINFO_BY_TOPIC)
        return chosen

    async def _plan_queue(
        self, group: str, queue: MessageQueue, target: ResetTarget, held: Activity | None
    ) -> QueueReset:
        old = await self._offsets.committed(queue, group)
        if held is not None and held.offset > (old or 0):
            old = held.offset
        low, high = await self._offsets.min_offset(queue), await self._offsets.max_offset(queue)
        wanted = await self._target_offset(queue, target, low, high, old)
        new = min(max(wanted, low), high)
        return QueueReset(queue, old, new, low, high, None if wanted == new else wanted)

    async def _target_offset(
        self, queue: MessageQueue, target: ResetTarget, low: int, high: int, old: int | None
    ) -> int:
        if target.kind == "time":
            return await self._offset_at(queue, target.value, high)
        if target.kind == "exact":
            return (target.exact or {})[queue]
        base = {"start": low, "end": high, "offset": 0, "shift": low if old is None else old}
        if target.kind not in base:
            raise InvalidRequest(f"unknown reset target {target.kind!r}")
        return base[target.kind] + (target.value if target.kind in ("offset", "shift") else 0)

    async def _offset_at(self, queue: MessageQueue, time: int, high: int) -> int:
        """Return the offset of the first message stored at `time` or later, or the end of the queue.

        Brokers of 4.9 return the last message if all are older, so its time is compared as well.
        """
        found = await self._offsets.search_offset(queue, time)
        if found != high - 1:
            return found
        last = (await self._admin.topics.stats(queue.topic))[queue].last_update_timestamp
        return high if last < time else found

    async def _commit_all(self, plan: ResetPlan) -> list[QueueResetResult]:
        wanted = {reset.queue: reset.new for reset in plan.changed}

        async def move(queue: MessageQueue) -> int | None:
            await self._offsets.commit(queue, wanted[queue], plan.group)
            return await self._offsets.committed(queue, plan.group)

        found, failures = await gather(wanted, move)
        kept = [queue for queue, offset in found.items() if offset != wanted[queue]]
        if kept:
            overridden, refused = await self._override(plan, kept)
            found, failures = found | overridden, failures | refused
        return [
            QueueResetResult(queue, offset, found.get(queue), found.get(queue) == offset, failures.get(queue))
            for queue, offset in wanted.items()
        ]

    async def _override(
        self, plan: ResetPlan, kept: Collection[MessageQueue]
    ) -> tuple[dict[MessageQueue, int | None], Failures]:
        """Reset the queues whose broker ignored a commit, if it can.

        Return their offsets afterwards, and failures.
        """
        part = plan._replace(queues=tuple(reset for reset in plan.queues if reset.queue in kept))
        if not all((await self._able(part)).values()):
            return {}, {}
        refused = await self._reset_by_queue(part)
        found, lost = await gather(kept, lambda queue: self._offsets.committed(queue, plan.group))
        return found, refused | lost

    async def _masters_of(self, plan: ResetPlan) -> dict[str, str]:
        names = sorted({reset.queue.broker_name for reset in plan.queues})
        masters = await self._admin.brokers.masters()
        missing = [name for name in names if name not in masters]
        if missing:
            text = f"broker {missing[0]} has no master to reset group {plan.group}"
            raise self._offsets.absent(NotFound, text, GET_BROKER_CLUSTER_INFO)
        return {name: masters[name] for name in names}

    async def _online_way(self, plan: ResetPlan) -> Callable[[ResetPlan], Awaitable[Failures]]:
        """Return the function that moves running consumers as planned.

        Raises OnlineResetUnsupported if there is none.
        """
        route = await self._instance.route(plan.topic)
        whole = len(plan.queues) == len(route.subscribe)
        # A 4.9 broker moves the write queues, and refuses if the group has no offset on one of them.
        alike = all(one.read_queue_nums == one.write_queue_nums for one in route.data.queue_datas)
        if whole and alike and plan.target.kind in ("start", "end", "time"):
            return self._reset_by_time
        if all((await self._able(plan)).values()):
            return self._reset_by_queue
        goal = "offsets of their own for the queues" if plan.target.kind == "exact" else f"{plan.target}"
        wanted = goal if whole else f"{goal} of single queues"
        if not alike:
            text = "of a topic that has as many read queues as write queues"
            raise OnlineResetUnsupported(plan.group, len(plan.clients), wanted, only=text)
        raise OnlineResetUnsupported(plan.group, len(plan.clients), wanted)

    async def _able(self, plan: ResetPlan) -> dict[str, bool]:
        targets = await self._masters_of(plan)
        return await gather_all(targets, lambda name: self._takes_queues(targets[name]))

    async def _brokers_write(self, plan: ResetPlan) -> bool:
        """Return True if a broker of the plan may write offsets itself, which then prove nothing about
        clients.
        """
        return any((await self._able(plan)).values())

    async def _pops(self, group: str) -> bool:
        try:
            return (await self._admin.clients.consumers(group)).consume_type is ConsumeType.CONSUME_POP
        except ConsumerOffline:
            return False

    async def _commit_positions(self, plan: ResetPlan) -> None:
        """Commit the positions that the clients would commit within seconds anyway.

        A broker refuses to reset the whole topic while the group has no offset on one of its queues (for
        which it returns 0), and a committed offset lower than the client's position would look like one that
        was moved.
        """
        positions = {r.queue: r.min_offset if r.old is None else r.old for r in plan.queues}
        known = await gather_all(positions, lambda queue: self._offsets.committed(queue, plan.group))
        behind = [queue for queue, position in positions.items() if (known[queue] or -1) < position]
        await gather_all(behind, lambda queue: self._offsets.commit(queue, positions[queue], plan.group))

    async def _takes_queues(self, address: str) -> bool:
        """Return True if the configuration of a broker (26) shows that it resets single queues.

        Returns False if the configuration cannot be read.
        """
        reply = await self._admin.invoke(address, GET_BROKER_CONFIG.code)
        return SERVER_SIDE_RESET in bytes(reply.body).decode("utf-8", "replace").splitlines()

    async def _reset_by_time(self, plan: ResetPlan) -> Failures:
        timestamp = _WHOLE_TOPIC_TIMES.get(plan.target.kind, plan.target.value)
        header = ResetOffsetRequestHeader(
            topic=plan.topic, group=plan.group, timestamp=timestamp, is_force=True
        )
        targets = await self._masters_of(plan)
        _, failures = await gather(targets, lambda name: self._send(targets[name], header))
        # If the clients have disconnected meanwhile, a commit will not be overwritten.
        left = {name for name, error in failures.items() if isinstance(error, ConsumerOffline)}
        direct = {reset.queue: reset.new for reset in plan.queues if reset.queue.broker_name in left}
        _, failed = await gather(direct, lambda queue: self._offsets.commit(queue, direct[queue], plan.group))
        failing = [reset.queue for reset in plan.queues if reset.queue.broker_name in failures.keys() - left]
        return failed | {queue: failures[queue.broker_name] for queue in failing}

    async def _reset_by_queue(self, plan: ResetPlan) -> Failures:
        targets = await self._masters_of(plan)
        wanted = {reset.queue: reset.new for reset in plan.changed}

        async def send(queue: MessageQueue) -> None:
            header = ResetOffsetRequestHeader(
                topic=plan.topic,
                group=plan.group,
                timestamp=-1,
                is_force=True,
                queue_id=queue.queue_id,
                offset=wanted[queue],
            )
            await self._send(targets[queue.broker_name], header)

        return (await gather(wanted, send))[1]

    async def _send(self, address: str, header: ResetOffsetRequestHeader) -> None:
        code = INVOKE_BROKER_TO_RESET_OFFSET.code
        await self._instance.call(address, code, header)  # 5.x may answer without the body that 4.x has
