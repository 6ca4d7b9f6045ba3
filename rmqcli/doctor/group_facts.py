"""Facts about a group, from its brokers, subscriptions and members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from rmqcli.client import Admin, ClientError, NoRoute
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.clients import GLANCE_TIMEOUT, merged
from rmqcli.client.errors import topic_remedy
from rmqcli.client.wire.addresses import name_servers
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import ConsumeType, MessageModel
from rmqcli.codec.bodies.route import QueueData, TopicRouteData
from rmqcli.codec.bodies.running import ConsumerConnection, ConsumerRunningInfo, ProcessQueueInfo
from rmqcli.codec.bodies.stats import OffsetWrapper
from rmqcli.codec.codes import MASTER_ID, Perm
from rmqcli.codec.ids import split_address
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import RETRY_PREFIX, is_system_group
from rmqcli.doctor.finding import Finding, Status
from rmqcli.render.text import duration, listed

Failures = dict[str, ClientError]
GroupTables = Mapping[str, Mapping[str, SubscriptionGroupConfig]]
SLOW_MS = 30_000
"""Time without consumption by the owner after which a queue is suspected to be stuck."""


class Members(NamedTuple):
    """A group with its clients: their reports by client id, those that do not respond, and the queues of its
    topics.

    `answers` and `settings` are by broker, `unasked` brokers whose settings are not known; `routes` are those
    of subscribed topics, `absent` the topics without one. `offsets` are committed ones; `delays` is the age
    of the next message in ms, for queues that may be stuck, as of `now_ms` (epoch ms); in those in `expired`,
    that message was deleted before it was consumed.
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

    `held` is the report of the owner, which commits later, and commits nothing before its first message.
    """
    at = offsets.consumer_offset if held is None else max(offsets.consumer_offset, held.commit_offset)
    return max(0, offsets.broker_offset - max(0, at))


def is_divided(found: Members) -> bool:
    """Return True if the committed offsets are meaningful: broadcasting clients have their own offsets."""
    return found.connection is None or found.connection.message_model != MessageModel.BROADCASTING


def owners_of(found: Members) -> dict[MessageQueue, tuple[str, ProcessQueueInfo]]:
    """Return the client that holds each queue, and its report on the queue."""
    return {
        queue: (client, held)
        for client, state in found.states.items()
        for queue, held in state.mq_table.items()
        if not held.droped
    }


def reports(found: Members) -> bool:
    """Return True if the holders of the queues are known: pull and pop consumers need not report them."""
    reporting = found.connection is None or found.connection.consume_type == ConsumeType.CONSUME_PASSIVELY
    return reporting or bool(owners_of(found))


def suspects(found: Members) -> list[MessageQueue]:
    """Return the queues in which messages wait and whose owner has not consumed for SLOW_MS or is unknown.

    Pull and pop consumers need not report their queues: of those that do not, no queue is suspected.
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
    """Query brokers, clients and the name server; add the errors of brokers that do not respond to
    `failures`.

    `tables` are the groups of each broker; without them, settings are not checked.
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
    states, silent = await admin.clients.running_infos(group, ids, timeout=GLANCE_TIMEOUT, failures=failures)
    routes, lost = await gather(sorted(connection.subscription_table), admin.instance.route)
    for error in lost.values():
        # Topics without a route become findings.
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

    Brokers list only groups with a committed offset (request code 317). A group whose first message hangs has
    none, so groups without any offset are included.
    """
    # -1 marks a group without a reported lag, which is kept below; a lag of 0 is not.
    lags: dict[str, int] = dict.fromkeys(await admin.groups.names(failures=failures), -1)
    for one in await admin.brokers.lags(masters, failures=failures):
        lags[one.group] = max(0, lags.get(one.group, 0)) + (one.lag or 0)
    names = [name for name, lag in lags.items() if lag and not is_system_group(name)]
    return sorted(names, key=lambda name: (-lags[name], name))


def topics(found: Members) -> Iterator[Finding]:
    """Check that every subscribed topic exists, and that messages sent to it can be read."""
    for topic in sorted(found.absent):
        if not topic.startswith(RETRY_PREFIX):
            text = "is subscribed to, and does not exist"
            yield Finding(Status.FAIL, "topic", f"{found.group} {topic}", text, topic_remedy(topic))
    for topic, route in found.routes.items():
        for one in (*readable(topic, route), *_writable(topic, route)):
            yield one._replace(target=f"{found.group} {topic}")


def readable(topic: str, route: TopicRouteData) -> Iterator[Finding]:
    """Yield the brokers of a route from which consumers do not get the messages that producers send."""
    if not any(_can_read(queues) for queues in route.queue_datas):
        fix = f"rmq topic update {topic} --perm rw --read-queues N"
        yield Finding(Status.FAIL, "topic", topic, "no queue can be read from", fix)
        return
    for queues in route.queue_datas:
        name = queues.broker_name
        if not _can_read(queues):
            fix = f"rmq topic update {topic} --perm rw -b {name}"
            yield Finding(Status.FAIL, "topic", topic, f"cannot be read on {name}", fix)
        elif queues.perm & Perm.WRITE and queues.write_queue_nums > queues.read_queue_nums:
            text = (
                f"{name} stores in {queues.write_queue_nums} queues, consumers read {queues.read_queue_nums}: "
                "messages in the others reach nobody"
            )
            fix = f"rmq topic update {topic} --read-queues {queues.write_queue_nums} -b {name}"
            yield Finding(Status.FAIL, "topic", topic, text, fix)


def _writable(topic: str, route: TopicRouteData) -> Iterator[Finding]:
    """Warn that no new messages arrive; brokers also need the write permission to redeliver failed messages."""
    closed = sorted(queues.broker_name for queues in route.queue_datas if not queues.perm & Perm.WRITE)
    fix = f"rmq topic update {topic} --perm rw"
    if topic.startswith(RETRY_PREFIX):
        if closed:
            text = f"cannot be written on {listed(closed)}: messages that fail are not sent again"
            yield Finding(Status.FAIL, "topic", topic, text, fix)
    elif closed and len(closed) == len(route.queue_datas):
        yield Finding(Status.WARN, "topic", topic, "cannot be sent to: nothing new comes", fix)


def _can_read(queues: QueueData) -> bool:
    return bool(queues.perm & Perm.READ) and queues.read_queue_nums > 0


def settings(found: Members) -> Iterator[Finding]:
    """Check that the settings of the group let its clients consume, and are the same on all brokers."""
    for name, one in sorted(found.settings.items()):
        for status, text, fix in _troubles(found, name, one):
            yield Finding(status, "settings", found.group, f"{name}: {text}", fix)
    own = {name: replace(one, group_name="", attributes=None) for name, one in found.settings.items()}
    first = next(iter(own.values()), None)
    unlike = [name for name, one in own.items() if one != first]
    if unlike:
        text = f"the settings on {listed(unlike)} are not those on {next(iter(own))}"
        yield Finding(
            Status.WARN, "settings", found.group, text, f"compare them: rmq group settings {found.group}"
        )
    if found.settings and found.connection is not None:
        missing = sorted(set(found.answers) - set(found.settings) - set(found.unasked))
        if missing:
            text = f"{listed(missing)} has no settings of the group: failed messages are not sent again there"
            yield Finding(Status.WARN, "settings", found.group, text, f"rmq group create {found.group}")


def _troubles(
    found: Members, broker: str, one: SubscriptionGroupConfig
) -> Iterator[tuple[Status, str, str | None]]:
    """Yield the effect of each field on clients, if it is a problem."""
    update = f"rmq group update {found.group}"
    broadcasting = (
        found.connection is not None and found.connection.message_model == MessageModel.BROADCASTING
    )
    if not one.consume_enable:
        yield Status.FAIL, "the group must not consume", f"{update} --consume"
    if broadcasting and not one.consume_broadcast_enable:
        yield Status.FAIL, "the group must not broadcast, and its clients do", f"{update} --broadcast"
    if one.retry_queue_nums <= 0 and not broadcasting:
        text = "there is no retry queue: messages that fail are dropped"
        yield Status.FAIL, text, f"{update} --retry-queues 1"
    read = _retry_queues(found, broker)
    if read is not None and 0 < read < one.retry_queue_nums and not broadcasting:
        topic = RETRY_PREFIX + found.group
        text = f"failed messages go to {one.retry_queue_nums} queues of {topic}, consumers read {read}"
        yield (
            Status.FAIL,
            text,
            f"rmq topic update {topic} --read-queues {one.retry_queue_nums} "
            f"--write-queues {one.retry_queue_nums} -b {broker}",
        )
    if one.retry_max_times <= 0 and not broadcasting:
        yield Status.WARN, "no retries: the first failure makes a dead letter", f"{update} --retries 16"
    if not one.notify_consumer_ids_changed_enable:
        text = "clients are not told of each other: a rebalance takes up to 20 s"
        yield Status.WARN, text, f"{update} --notify"
    if one.broker_id != MASTER_ID and not _is_registered(found, broker, one.broker_id):
        text = f"clients are to read from broker id {one.broker_id}, which is not registered: they read from the master"
        yield Status.WARN, text, f"{update} --read-from 0"


def _retry_queues(found: Members, broker: str) -> int | None:
    """Return how many queues of its retry topic the group reads on a broker; None if it has no such topic."""
    route = found.routes.get(RETRY_PREFIX + found.group, TopicRouteData())
    return next((one.read_queue_nums for one in route.queue_datas if one.broker_name == broker), None)


def _is_registered(found: Members, broker: str, broker_id: int) -> bool:
    tables = [
        data.broker_addrs
        for route in found.routes.values()
        for data in route.broker_datas
        if data.broker_name == broker
    ]
    return not tables or any(broker_id in table for table in tables)


SKEW_MS = 2000
_MODES: Mapping[str, tuple[str, Status, str]] = {
    "messageModel": ("message models", Status.FAIL, "some get every message, others a share of them"),
    "PROP_CONSUME_TYPE": (
        "kinds of consumers",
        Status.FAIL,
        "pull and push consumers take each other's queues",
    ),
    "PROP_CONSUMEORDERLY": (
        "orderly consumption",
        Status.FAIL,
        "who is not orderly consumes without the locks",
    ),
    "consumeFromWhere": (
        "starts of new queues",
        Status.WARN,
        "what a new queue begins with depends on its owner",
    ),
    "maxReconsumeTimes": ("numbers of retries", Status.WARN, "dead letters depend on who consumed a message"),
}
"""Properties that all clients of a group must share: the name of the difference, its severity, and the
reason.
"""


def connections(found: Members) -> Iterator[Finding]:
    """Check that every client is connected exactly once to every broker of its topics, and that ids are
    unique.
    """
    if found.connection is None:
        return
    brokers = {queue.broker_name for queues in found.queues.values() for queue in queues}
    answers = {name: answer for name, answer in found.answers.items() if name in brokers}
    every = {one.client_id for answer in found.answers.values() for one in answer.connection_set}
    for name, answer in answers.items():
        missing = sorted(every - {one.client_id for one in answer.connection_set})
        if missing:
            text = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not connected to {name}"
            fix = "clients divide queues by who is connected: look whether they reach that broker (30 s after a start)"
            yield Finding(Status.FAIL, "connections", found.group, text, fix)
    for client_id, addresses in _shared_ids(found.answers).items():
        text = f"{client_id} is the client id of several processes ({', '.join(addresses)}): each takes the same queues"
        fix = "give each process an instance name of its own"
        yield Finding(Status.FAIL, "connections", found.group, text, fix)


def _shared_ids(answers: Mapping[str, ConsumerConnection]) -> dict[str, list[str]]:
    """Return ids with two connections to one broker, or from two hosts: a client has one connection to each
    broker.
    """
    shared: dict[str, list[str]] = {}
    hosts: dict[str, dict[str, str]] = {}
    for answer in answers.values():
        counts = Counter(one.client_id for one in answer.connection_set)
        for one in answer.connection_set:
            host = _host(one.client_addr)
            hosts.setdefault(one.client_id, {}).setdefault(host, one.client_addr)
            if counts[one.client_id] > 1:
                shared.setdefault(one.client_id, []).append(one.client_addr)
    several = {name: list(found.values()) for name, found in hosts.items() if len(found) > 1}
    return {name: sorted(set(addresses)) for name, addresses in (several | shared).items()}


def _host(address: str) -> str:
    try:
        return split_address(address)[0]
    except ValueError:
        return address


def modes(found: Members) -> Iterator[Finding]:
    """Check that all clients have the same mode, also according to brokers, and share name servers."""
    yield from _modes_on_brokers(found)
    for name, (what, status, why) in _MODES.items():
        values = {
            client: state.properties[name]
            for client, state in found.states.items()
            if name in state.properties
        }
        if len(set(values.values())) > 1:
            text = f"different {what}: {', '.join(f'{client} {value}' for client, value in sorted(values.items()))}"
            yield Finding(status, "modes", found.group, text, f"give all clients the same: {why}")
    for client, state in sorted(found.states.items()):
        if state.properties.get("maxReconsumeTimes") == "0":
            fix = "maxReconsumeTimes of that client: -1 leaves the number to the group"
            yield Finding(
                Status.WARN,
                "modes",
                found.group,
                f"{client} asks for no retries: failures are dead letters",
                fix,
            )
    yield from _name_servers(found)


def _modes_on_brokers(found: Members) -> Iterator[Finding]:
    """Compare the modes on brokers. A broker keeps the mode of the last heartbeat, so differing brokers have
    differing clients.
    """
    for name in ("message_model", "consume_type"):
        what, status, why = _MODES["messageModel" if name == "message_model" else "PROP_CONSUME_TYPE"]
        values = {
            broker: str(value)
            for broker, answer in sorted(found.answers.items())
            if (value := getattr(answer, name)) is not None
        }
        if len(set(values.values())) > 1:
            text = f"different {what}: {', '.join(f'{broker} {value}' for broker, value in values.items())}"
            fix = f"brokers keep what a client said last; give all clients the same: {why}"
            yield Finding(status, "modes", found.group, text, fix)


def _name_servers(found: Members) -> Iterator[Finding]:
    lists = {}
    for client, state in found.states.items():
        try:
            lists[client] = frozenset(name_servers(state.properties.get("PROP_NAMESERVER_ADDR", "")))
        except ValueError:
            continue
    if len(lists) > 1 and not frozenset.intersection(*lists.values()):
        text = "; ".join(f"{client} asks {', '.join(sorted(of))}" for client, of in sorted(lists.items()))
        fix = "look whether these are name servers of one cluster, under one name"
        yield Finding(
            Status.WARN, "modes", found.group, f"clients have no name server in common: {text}", fix
        )


def clocks(found: Members) -> Iterator[Finding]:
    """Check that no client's clock is ahead: a broker ignores subscriptions older than those it has."""
    for client, state in found.states.items():
        times = [data.sub_version for data in state.subscription_set]
        started = state.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")
        times += [int(started)] if started.isascii() and started.isdigit() else []
        for held in state.mq_table.values():
            times += [held.last_pull_timestamp, held.last_consume_timestamp, held.last_lock_timestamp]
        ahead = max(times, default=0) - found.now_ms
        if found.now_ms and ahead > SKEW_MS:
            text = f"the clock of {client} is {duration(ahead / 1000)} ahead: its next subscriptions may be ignored, "
            text += "and its queues seem to move"
            yield Finding(Status.WARN, "clocks", found.group, text, "synchronize the clocks (NTP)")


def known_to_brokers(found: Members) -> Iterator[Finding]:
    """Check that brokers filter by the same subscriptions as the clients or, if no client reports any, that
    they agree. A broker refuses pulls from one of its topics for which it knows no subscription.
    """
    said = {
        data.topic: (data.expression_type, data.sub_string, "its clients say")
        for state in found.states.values()
        for data in state.subscription_set
    }
    for name, answer in found.answers.items():
        for topic, data in answer.subscription_table.items():
            *same, whose = said.setdefault(topic, (data.expression_type, data.sub_string, f"{name} does"))
            if same != [data.expression_type, data.sub_string]:
                text = (
                    f"{name} filters {topic} by {data.sub_string!r} ({data.expression_type}), not as {whose}"
                )
                fix = "wait for a heartbeat (30 s); then look at the clocks of the clients: the newest version wins"
                yield Finding(Status.WARN, "subscriptions", found.group, text, fix)
    for topic in said:
        holders = {queue.broker_name for queue in found.queues.get(topic, ())} & set(found.answers)
        for name in sorted(holders):
            answer = found.answers[name]
            if answer.connection_set and topic not in answer.subscription_table:
                text = f"{name} knows no subscription of {topic}: it refuses pulls"
                fix = "wait for a heartbeat (30 s); then look for clients of this group with other subscriptions"
                yield Finding(Status.FAIL, "subscriptions", found.group, text, fix)
