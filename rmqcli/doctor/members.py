"""Checks of the running members of a group as a whole: subscriptions, owners of queues, versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rmqcli.client import ClientError
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import ConsumeType
from rmqcli.codec.bodies.running import ConsumerConnection
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import RETRY_PREFIX
from rmqcli.codec.versions import version_name
from rmqcli.doctor.finding import Finding, Status, named_queues
from rmqcli.doctor.group_facts import (
    Members,
    clocks,
    connections,
    is_divided,
    known_to_brokers,
    modes,
    settings,
    topics,
    waiting_in,
)
from rmqcli.doctor.groups import alike
from rmqcli.doctor.progress import progress
from rmqcli.render.text import duration, many

Failures = dict[str, ClientError]
SILENT = "look at that client; the other checks leave it out"
GroupTables = Mapping[str, Mapping[str, SubscriptionGroupConfig]]


def judged(found: Members) -> Iterator[Finding]:
    """Yield the findings about a group, in the order of their lines."""
    if found.connection is None:
        waiting = sum(map(waiting_in, found.offsets.values()))
        if waiting:
            text = f"no client is running, and {many(waiting, 'message')} to consume"
            if found.delays:
                text += f", the first for {duration(max(found.delays.values()) / 1000)}"
            yield Finding(Status.WARN, "clients", found.group, text, "start a consumer")
        else:
            yield Finding(Status.SKIP, "clients", found.group, "no client is running")
        yield from settings(found)
        yield from progress(found)
        return
    yield from _clients(found, found.connection)
    yield from _versions(found, found.connection)
    yield from alike(found.group, found.states)
    yield from _owners(found, found.connection)
    yield from problems(found)
    yield from progress(found)


def detailed(found: Members) -> Iterator[Finding]:
    """Yield the findings other than those about the number of clients and their subscriptions."""
    return (
        one for one in judged(found) if one.check not in ("clients", "subscriptions") or one.fix == SILENT
    )


def problems(found: Members) -> Iterator[Finding]:
    """Yield problems that other checks do not find. A passed check yields nothing."""
    for check in (connections, modes, known_to_brokers, clocks, topics, settings):
        yield from check(found)


def _clients(found: Members, connection: ConsumerConnection) -> Iterator[Finding]:
    for client, error in found.silent.items():
        text = f"{client} does not report its state: {error}"
        yield Finding(Status.WARN, "clients", found.group, text, SILENT)
    if not found.silent:
        text = f"{many(len(connection.connection_set), 'client')} running"
        yield Finding(Status.OK, "clients", found.group, text)


def _versions(found: Members, connection: ConsumerConnection) -> Iterator[Finding]:
    """Check that the clients of a group have the same version: rules of assignment and retries differ between
    versions.
    """
    counts = Counter(f"{one.language} {version_name(one.version)}" for one in connection.connection_set)
    if len(counts) > 1:
        text = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
        yield Finding(Status.WARN, "versions", found.group, text, "let all clients have one version")
    else:
        yield Finding(Status.OK, "versions", found.group, f"all {''.join(counts)}")


def _owners(found: Members, connection: ConsumerConnection) -> Iterator[Finding]:
    """Check that each queue of a subscribed topic has one owner, and each client a queue."""
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
    """Return the reason why queues need no owner, None if they do."""
    if not is_divided(found):
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
    lost = [queue for queue in free if found.answers and queue.broker_name not in found.answers]
    shared = [queue for queue in queues if len(owners.get(queue, ())) > 1]
    idle = sorted(found.states.keys() - {name for queue in queues for name in owners.get(queue, ())})
    if free and len(lost) == len(free):
        text = f"{named_queues(free)} without an owner, of a broker that does not answer"
        return Finding(Status.WARN, "queues", target, text, "see: rmq doctor")
    if free and found.silent:
        text = f"{named_queues(free)} without an owner among the clients that report"
        return Finding(Status.WARN, "queues", target, text, "see the silent clients")
    if free:
        fix = "nobody consumes them: wait for a rebalance (20 s), then look at subscriptions and client ids"
        return Finding(Status.FAIL, "queues", target, f"{named_queues(free)} without an owner", fix)
    if shared:
        fix = "wait for a rebalance (20 s); clients with one id take each other's queues"
        return Finding(Status.WARN, "queues", target, f"{named_queues(shared)} with several owners", fix)
    # a retry topic has one queue for all clients
    if idle and len(found.states) > len(queues) and not topic.startswith(RETRY_PREFIX):
        text = f"{many(len(queues), 'queue')} for {many(len(found.states), 'client')}: {', '.join(idle)} without one"
        return Finding(Status.WARN, "queues", target, text, "add queues, or stop clients")
    return Finding(Status.OK, "queues", target, f"{many(len(queues), 'queue')}, each with an owner")
