"""The facts about one group: the answers that the checks judge."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from codec.bodies.config import SubscriptionGroupConfig
from codec.bodies.connections import ConsumerConnection
from codec.bodies.heartbeat import ConsumeType, MessageModel
from codec.bodies.route import TopicRouteData
from codec.bodies.running import ConsumerRunningInfo, ProcessQueueInfo
from codec.bodies.stats import OffsetWrapper
from codec.message_queue import MessageQueue
from codec.names import is_system_group
from rmqcli.client import Admin, ClientError, NoRoute
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.clients import merged

Failures = dict[str, ClientError]
GroupTables = Mapping[str, Mapping[str, SubscriptionGroupConfig]]
SLOW_MS = 30_000
"""The time since which an owner must not have consumed for a queue to be suspected to stand still."""


class Members(NamedTuple):
    """A group with its clients: what they report by client id, who is silent, the queues of its topics.

    `answers` and `settings` are by broker, `unasked` brokers whose settings are not known; `routes` are
    those of subscribed topics, `absent` the topics without one. `offsets` are committed ones, `delays`
    the age of the next message in ms for queues that may stand still, as of `now_ms` (epoch ms); in
    `expired` ones of these it was deleted before it was consumed.
    """

    group: str
    connection: ConsumerConnection | None
    states: Mapping[str, ConsumerRunningInfo] = {}
    silent: Mapping[str, ClientError] = {}
    queues: Mapping[str, Sequence[MessageQueue]] = {}
    answers: Mapping[str, ConsumerConnection] = {}
    settings: Mapping[str, SubscriptionGroupConfig] = {}
    unasked: Collection[str] = ()
    routes: Mapping[str, TopicRouteData] = {}
    absent: Collection[str] = ()
    offsets: Mapping[MessageQueue, OffsetWrapper] = {}
    delays: Mapping[MessageQueue, int] = {}
    expired: Collection[MessageQueue] = ()
    now_ms: int = 0


def waiting_in(offsets: OffsetWrapper, held: ProcessQueueInfo | None = None) -> int:
    """Return the number of messages that are not consumed; 0 for an offset beyond the end.

    `held` is what the owner says: it commits later, and nothing before the first message.
    """
    at = offsets.consumer_offset if held is None else max(offsets.consumer_offset, held.commit_offset)
    return max(0, offsets.broker_offset - max(0, at))


def is_divided(found: Members) -> bool:
    """Return whether the committed offsets say anything: in a broadcasting group each client has its own."""
    return found.connection is None or found.connection.message_model != MessageModel.BROADCASTING


def owners_of(found: Members) -> dict[MessageQueue, tuple[str, ProcessQueueInfo]]:
    """Return the client that holds each queue, and what it says of it."""
    return {
        queue: (client, held)
        for client, state in found.states.items()
        for queue, held in state.mq_table.items()
        if not held.droped
    }


def reports(found: Members) -> bool:
    """Return whether it is known who holds the queues: pull and pop consumers need not say."""
    reporting = found.connection is None or found.connection.consume_type == ConsumeType.CONSUME_PASSIVELY
    return reporting or bool(owners_of(found))


def suspects(found: Members) -> list[MessageQueue]:
    """Return the queues in which messages wait, and whose owner has not consumed for SLOW_MS, or is unknown.

    Pull and pop consumers need not report what they hold: of those that do not, nothing is suspected.
    """
    if not is_divided(found):
        return []
    owners = owners_of(found)
    if not reports(found):
        return []
    return [
        queue
        for queue, offsets in found.offsets.items()
        if waiting_in(offsets, owners[queue][1] if queue in owners else None)
        and (queue not in owners or found.now_ms - owners[queue][1].last_consume_timestamp >= SLOW_MS)
    ]


async def members_of(
    admin: Admin, group: str, failures: Failures, tables: GroupTables | None = None
) -> Members:
    """Ask brokers, clients and the name server; brokers that do not respond are added to `failures`.

    `tables` are the groups of each broker; without them the settings are not judged.
    """
    answers = await admin.clients.connections(group, failures=failures)
    stats = await admin.offsets.stats(group, failures=failures)
    own = {name: table[group] for name, table in (tables or {}).items() if group in table}
    unasked = set(answers) - set(tables or {})
    now_ms = admin.instance.now_ms()
    if not answers:
        return await _with_delays(
            admin, Members(group, None, settings=own, offsets=stats.offset_table, now_ms=now_ms), failures
        )
    connection = merged(list(answers.values()))
    ids = [client.client_id for client in connection.connection_set]
    states, silent = await admin.clients.running_infos(group, ids, failures=failures)
    routes, lost = await gather(sorted(connection.subscription_table), admin.instance.route)
    for error in lost.values():
        if not isinstance(error, NoRoute):
            raise error
    offsets = (await admin.offsets.with_subscribed(group, stats, connection, failures)).offset_table
    found = Members(
        group,
        connection,
        states,
        silent,
        {topic: list(route.subscribe) for topic, route in routes.items()},
        answers,
        own,
        unasked,
        {topic: route.data for topic, route in routes.items()},
        tuple(lost),
        offsets,
        now_ms=now_ms,
    )
    return await _with_delays(admin, found, failures)


async def _with_delays(admin: Admin, found: Members, failures: Failures) -> Members:
    wanted = sorted({queue.topic for queue in suspects(found)})
    tables, _ = await gather(
        wanted, lambda topic: admin.offsets.next_messages(found.group, topic, failures=failures)
    )
    following = {queue: one for table in tables.values() for queue, one in table.items()}
    return found._replace(
        delays={queue: one.age_ms for queue, one in following.items()},
        expired=[queue for queue in suspects(found) if queue in following and following[queue].expired],
    )


async def lagging(admin: Admin, masters: Mapping[str, str], failures: Failures) -> list[str]:
    """Return the groups that may have messages to consume, those with the most first.

    Brokers list only groups with a committed offset (317): one whose first message hangs has none, so groups
    without any count, too.
    """
    lags: dict[str, int] = dict.fromkeys(await admin.groups.names(failures=failures), -1)
    for one in await admin.brokers.lags(masters, failures=failures):
        lags[one.group] = max(0, lags.get(one.group, 0)) + (one.lag or 0)
    names = [name for name, lag in lags.items() if lag and not is_system_group(name)]
    return sorted(names, key=lambda name: (-lags[name], name))
