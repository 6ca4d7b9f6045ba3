"""Checks of the running members of a group, together: subscriptions, owners of queues, versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from codec.bodies.connections import ConsumerConnection
from codec.bodies.heartbeat import ConsumeType, MessageModel
from codec.bodies.running import ConsumerRunningInfo
from codec.message_queue import MessageQueue
from codec.versions import version_name
from rmqcli.client import Admin, ClientError, NoRoute
from rmqcli.client.admin.area import gather
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.groups import alike
from rmqcli.render.text import many, number_ranges

Failures = dict[str, ClientError]


class Members(NamedTuple):
    """A group with its clients: what they report by client id, who is silent, the queues of its topics."""

    group: str
    connection: ConsumerConnection | None
    states: Mapping[str, ConsumerRunningInfo] = {}
    silent: Mapping[str, ClientError] = {}
    queues: Mapping[str, Sequence[MessageQueue]] = {}


async def members_of(admin: Admin, group: str, failures: Failures) -> Members:
    """Ask brokers, clients and the name server; brokers that do not respond are added to `failures`."""
    connection = await admin.clients.connected(group, failures)
    if connection is None:
        return Members(group, None)
    ids = [client.client_id for client in connection.connection_set]
    states, silent = await admin.clients.running_infos(group, ids, failures=failures)
    routes, lost = await gather(sorted(connection.subscription_table), admin.instance.route)
    for error in lost.values():
        if not isinstance(error, NoRoute):
            raise error
    queues = {topic: list(route.subscribe) for topic, route in routes.items()}
    return Members(group, connection, states, silent, queues)


def judged(found: Members) -> Iterator[Finding]:
    """Yield the findings about a group, in the order of their lines."""
    if found.connection is None:
        yield Finding(Status.SKIP, "clients", found.group, "no client is running")
        return
    yield from _clients(found, found.connection)
    yield from _versions(found, found.connection)
    yield from alike(found.group, found.states)
    yield from _owners(found, found.connection)


def _clients(found: Members, connection: ConsumerConnection) -> Iterator[Finding]:
    for client, error in found.silent.items():
        fix = "look at that client; the other checks leave it out"
        yield Finding(
            Status.WARN, "clients", found.group, f"{client} does not report its state: {error}", fix
        )
    if not found.silent:
        text = f"{many(len(connection.connection_set), 'client')} running"
        yield Finding(Status.OK, "clients", found.group, text)


def _versions(found: Members, connection: ConsumerConnection) -> Iterator[Finding]:
    """Clients of one group have one version: rules of assignment and retries differ between versions."""
    counts = Counter(f"{one.language} {version_name(one.version)}" for one in connection.connection_set)
    if len(counts) > 1:
        text = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
        yield Finding(Status.WARN, "versions", found.group, text, "let all clients have one version")
    else:
        yield Finding(Status.OK, "versions", found.group, f"all {''.join(counts)}")


def _owners(found: Members, connection: ConsumerConnection) -> Iterator[Finding]:
    """Each queue of a subscribed topic has one owner, and each client a queue."""
    reason = _no_owners(found, connection)
    if reason is not None:
        yield Finding(Status.SKIP, "queues", found.group, reason)
        return
    owners: dict[MessageQueue, list[str]] = {}
    for client, state in found.states.items():
        for queue, held in state.mq_table.items():
            if not held.droped:
                owners.setdefault(queue, []).append(client)
    for topic, queues in found.queues.items():
        yield _owned(found, topic, queues, owners)


def _no_owners(found: Members, connection: ConsumerConnection) -> str | None:
    """Return why nobody needs to own a queue."""
    if connection.message_model == MessageModel.BROADCASTING:
        return "each client of a broadcasting group consumes all queues"
    if connection.consume_type != ConsumeType.CONSUME_PASSIVELY:
        return "pull consumers choose their queues"
    if any(state.mq_pop_table for state in found.states.values()):
        return "pop consumers share queues"
    return None if found.states else "no client reports its queues"


def _owned(
    found: Members, topic: str, queues: Sequence[MessageQueue], owners: Mapping[MessageQueue, Sequence[str]]
) -> Finding:
    target = f"{found.group} {topic}"
    free = [queue for queue in queues if queue not in owners]
    shared = [queue for queue in queues if len(owners.get(queue, ())) > 1]
    idle = sorted(found.states.keys() - {name for queue in queues for name in owners.get(queue, ())})
    if free and found.silent:
        text = f"{_named(free)} without an owner among the clients that report"
        return Finding(Status.WARN, "queues", target, text, "see the silent clients")
    if free:
        fix = "nobody consumes them: wait for a rebalance (20 s), then look at subscriptions and client ids"
        return Finding(Status.FAIL, "queues", target, f"{_named(free)} without an owner", fix)
    if shared:
        fix = "wait for a rebalance (20 s); clients with one id take each other's queues"
        return Finding(Status.WARN, "queues", target, f"{_named(shared)} with several owners", fix)
    if idle and len(found.states) > len(queues):
        text = f"{many(len(queues), 'queue')} for {many(len(found.states), 'client')}: {', '.join(idle)} without one"
        return Finding(Status.WARN, "queues", target, text, "add queues, or stop clients")
    return Finding(Status.OK, "queues", target, f"{many(len(queues), 'queue')}, each with an owner")


def _named(queues: Sequence[MessageQueue]) -> str:
    """Return `queues broker-a:0-2, broker-b:1`."""
    numbers: dict[str, list[int]] = {}
    for queue in queues:
        numbers.setdefault(queue.broker_name, []).append(queue.queue_id)
    places = [f"{name}:{number_ranges(of).replace(', ', ',')}" for name, of in sorted(numbers.items())]
    return f"{'queue' if len(queues) == 1 else 'queues'} {', '.join(places)}"
