"""Moving a group to other offsets: first a plan that changes nothing, then its application.

Offline: every queue is committed (15) and read back (14).
Online: running consumers would overwrite a commit within seconds, so the broker must tell them (222, which pushes 220). A
4.x broker takes one time for all queues of the topic: that expresses start (time 0), end (-1) and a time; it does not write
anything itself, and Java's clients wait 10 s before they move (see `settling`). A 5.x broker takes single queues and
offsets and writes them at once, the broker of `rmq up` takes them and tells the clients; both have the property
useServerSideResetOffset. Without it the fields would be ignored and the whole topic moved.
What a broker cannot express raises OnlineResetUnsupported when it is planned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from codec.bodies.offsets import ResetOffsetBody
from codec.codes import RequestCode
from codec.headers.offsets import ResetOffsetRequestHeader
from codec.message_queue import MessageQueue
from rmqcli.client.admin.base import gather, gather_all, read_body
from rmqcli.client.admin.settling import Activity, Failures, SettlingAdmin
from rmqcli.client.admin.values import QueueReset, QueueResetResult, ResetPlan, ResetResult, ResetTarget
from rmqcli.client.errors import ConsumerOffline, InvalidRequest, NotFound, OnlineResetUnsupported

__all__ = ["SETTLE", "ResetAdmin"]

SETTLE = 30.0  # seconds that running consumers get to move; Java's take 10, and up to 1 for each queue of an orderly one
SERVER_SIDE_RESET = "useServerSideResetOffset=true"
_WHOLE_TOPIC_TIMES = {"start": 0, "end": -1}


class ResetAdmin(SettlingAdmin):
    """Calls that move groups."""

    async def plan_reset(
        self,
        group: str,
        topic: str,
        target: ResetTarget,
        *,
        queue_id: int | None = None,
        queues: Collection[MessageQueue] | None = None,
    ) -> ResetPlan:
        """What a reset would do, queue by queue, within the offsets that exist. Nothing is changed.

        `queue_id` takes that queue of every broker, `queues` exactly these; NotFound when the topic has none of them. Running
        clients are asked how far they are: they tell the broker some seconds later. OnlineResetUnsupported when they cannot
        be moved so.
        """
        chosen = await self._chosen(topic, target, queue_id, queues)
        clients = await self._running(group, topic)
        held = await self.activity(group, clients)
        resets = await gather_all(
            chosen, lambda queue: self._plan_queue(group, queue, target, held.get(queue))
        )
        plan = ResetPlan(group, topic, target, tuple(resets.values()), clients)
        if plan.online:
            await self._online_way(plan)
        return plan

    async def apply_reset(self, plan: ResetPlan, *, settle: float = SETTLE) -> ResetResult:
        """Carries a plan out and reads the offsets back.

        With running consumers it waits up to `settle` seconds for them to move; a queue that was not seen to have moved by then
        is `confirmed=False`. Failures are told queue by queue; OnlineResetUnsupported raises before anything is done.
        """
        if not plan.online:
            results = await self._commit_all(plan)
            return ResetResult(plan.group, plan.topic, False, tuple(results))
        send = await self._online_way(plan)
        await self._tell_where_clients_are(plan)
        before = await self.activity(plan.group, plan.clients) if plan.replayed else {}
        failures = await send(plan)
        results = await self.settled(plan, failures, before, settle)
        return ResetResult(plan.group, plan.topic, True, tuple(results))

    async def places(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The next offset of each queue on which the group has one, as running clients know it; NotFound without any."""
        lags = await self.offsets(group, topic)
        held = await self.activity(group, await self._running(group, topic))
        return {
            lag.queue: max(lag.consumer_offset, held[lag.queue].offset if lag.queue in held else 0)
            for lag in lags
            if lag.queue.topic == topic and lag.consumer_offset is not None
        }

    async def _chosen(
        self, topic: str, target: ResetTarget, queue_id: int | None, queues: Collection[MessageQueue] | None
    ) -> list[MessageQueue]:
        known = (await self.instance.route(topic)).subscribe
        wanted = known if queues is None else queues
        if target.exact is not None:
            wanted = [queue for queue in wanted if queue in target.exact]
        chosen = [queue for queue in known if queue in wanted and queue_id in (None, queue.queue_id)]
        if not chosen:
            what = "such queue" if queue_id is None else f"queue {queue_id}"
            address = self.instance.name_servers.current
            raise NotFound(
                22,
                f"topic {topic} has no {what}",
                address,
                RequestCode.GET_ROUTEINFO_BY_TOPIC.name,
                concluded=True,
            )
        return chosen

    async def _plan_queue(
        self, group: str, queue: MessageQueue, target: ResetTarget, held: Activity | None
    ) -> QueueReset:
        old = await self.committed(queue, group)
        if held is not None and held.offset > (old or 0):
            old = held.offset
        low, high = await self.min_offset(queue), await self.max_offset(queue)
        new = await self._target_offset(queue, target, low, high, old)
        return QueueReset(queue, old, min(max(new, low), high), low, high)

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
        """The first message stored at `time` or later. A 4.9 broker answers the last one there is for a later time, too."""
        found = await self.search_offset(queue, time)
        if found != high - 1:
            return found
        last = (await self.topic_stats(queue.topic))[queue].last_update_timestamp
        return high if last < time else found

    async def _running(self, group: str, topic: str) -> tuple[str, ...]:
        """Ids of connected clients of the group that consume the topic."""
        try:
            connection = await self.consumer_connection(group)
        except ConsumerOffline:
            return ()
        if connection.subscription_table and topic not in connection.subscription_table:
            return ()
        return tuple(client.client_id for client in connection.connection_set)

    async def _commit_all(self, plan: ResetPlan) -> list[QueueResetResult]:
        wanted = {reset.queue: reset.new for reset in plan.queues}

        async def move(queue: MessageQueue) -> int | None:
            await self.commit(queue, wanted[queue], plan.group)
            return await self.committed(queue, plan.group)

        found, failures = await gather(wanted, move)
        return [
            QueueResetResult(queue, offset, found.get(queue), found.get(queue) == offset, failures.get(queue))
            for queue, offset in wanted.items()
        ]

    # ------------------------------------------------------------------------------------------------------ with clients

    async def _masters_of(self, plan: ResetPlan) -> dict[str, str]:
        names = sorted({reset.queue.broker_name for reset in plan.queues})
        masters = await self.masters()
        missing = [name for name in names if name not in masters]
        if missing:
            address = self.instance.name_servers.current
            raise NotFound(
                22,
                f"broker {missing[0]} has no master to reset group {plan.group}",
                address,
                RequestCode.GET_BROKER_CLUSTER_INFO.name,
                concluded=True,
            )
        return {name: masters[name] for name in names}

    async def _online_way(self, plan: ResetPlan) -> Callable[[ResetPlan], Awaitable[Failures]]:
        """How to move running consumers as planned; OnlineResetUnsupported when there is no way."""
        whole = len(plan.queues) == len((await self.instance.route(plan.topic)).subscribe)
        if whole and plan.target.kind in ("start", "end", "time"):
            return self._reset_by_time
        targets = await self._masters_of(plan)
        able = await gather_all(targets, lambda name: self._takes_queues(targets[name]))
        if all(able.values()):
            return self._reset_by_queue
        goal = "offsets of their own for the queues" if plan.target.kind == "exact" else f"{plan.target}"
        wanted = goal if whole else f"{goal} of single queues"
        raise OnlineResetUnsupported(plan.group, len(plan.clients), wanted)

    async def _tell_where_clients_are(self, plan: ResetPlan) -> None:
        """Commits what the clients would within seconds.

        A broker refuses the whole topic while the group has no offset on one of its queues (and answers 0 when asked for it).
        And an offset that lags behind the clients would look like one that was moved.
        """
        places = {r.queue: r.min_offset if r.old is None else r.old for r in plan.queues}
        known = await gather_all(places, lambda queue: self.committed(queue, plan.group))
        behind = [queue for queue, place in places.items() if (known[queue] or -1) < place]
        await gather_all(behind, lambda queue: self.commit(queue, places[queue], plan.group))

    async def _takes_queues(self, address: str) -> bool:
        """Whether a broker resets single queues, as its configuration says (26); not when that may not be read."""
        reply = await self.invoke(address, RequestCode.GET_BROKER_CONFIG)
        return SERVER_SIDE_RESET in bytes(reply.body).decode("utf-8", "replace").splitlines()

    async def _reset_by_time(self, plan: ResetPlan) -> Failures:
        timestamp = _WHOLE_TOPIC_TIMES.get(plan.target.kind, plan.target.value)
        header = ResetOffsetRequestHeader(
            topic=plan.topic, group=plan.group, timestamp=timestamp, is_force=True
        )
        targets = await self._masters_of(plan)
        _, failures = await gather(targets, lambda name: self._tell(targets[name], header))
        # Where the clients have left meanwhile, nobody will overwrite a commit
        left = {name for name, error in failures.items() if isinstance(error, ConsumerOffline)}
        direct = [reset.queue for reset in plan.queues if reset.queue.broker_name in left]
        _, failed = await gather(direct, lambda queue: self._commit_planned(plan, queue))
        told = [reset.queue for reset in plan.queues if reset.queue.broker_name in failures.keys() - left]
        return failed | {queue: failures[queue.broker_name] for queue in told}

    async def _reset_by_queue(self, plan: ResetPlan) -> Failures:
        targets = await self._masters_of(plan)
        wanted = {reset.queue: reset.new for reset in plan.queues}

        async def tell(queue: MessageQueue) -> None:
            header = ResetOffsetRequestHeader(
                topic=plan.topic,
                group=plan.group,
                timestamp=-1,
                is_force=True,
                queue_id=queue.queue_id,
                offset=wanted[queue],
            )
            await self._tell(targets[queue.broker_name], header)

        return (await gather(wanted, tell))[1]

    async def _tell(self, address: str, header: ResetOffsetRequestHeader) -> ResetOffsetBody | None:
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        reply = await self.instance.call(address, code, header)
        return read_body(ResetOffsetBody, reply, address, code) if reply.body else None

    async def _commit_planned(self, plan: ResetPlan, queue: MessageQueue) -> None:
        await self.commit(queue, next(reset.new for reset in plan.queues if reset.queue == queue), plan.group)
