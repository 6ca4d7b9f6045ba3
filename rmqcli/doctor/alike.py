"""Checks of the clients of a group against each other: connections, modes, name servers, clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from codec.addresses import split_address
from codec.bodies.connections import ConsumerConnection
from rmqcli.client.wire.addresses import name_servers
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.group_facts import Members
from rmqcli.render.text import duration

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
"""Properties that all clients of a group must share: what differs, how bad it is, and why."""


def connections(found: Members) -> Iterator[Finding]:
    """Every client is connected to every broker of its topics, once, and no two have one id."""
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
    """Return ids with two connections to one broker, or from two hosts: a client has one to each broker."""
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
    """All clients have the same mode, as brokers know it, too, and name servers in common."""
    yield from _modes_on_brokers(found)
    for name, (what, status, why) in _MODES.items():
        values = {
            client: state.properties[name]
            for client, state in found.states.items()
            if name in state.properties
        }
        if len(set(values.values())) > 1:
            text = (
                f"unlike {what}: {', '.join(f'{client} {value}' for client, value in sorted(values.items()))}"
            )
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
    """A broker keeps the mode of the last heartbeat, so brokers that differ have clients that do."""
    for name in ("message_model", "consume_type"):
        what, status, why = _MODES["messageModel" if name == "message_model" else "PROP_CONSUME_TYPE"]
        values = {
            broker: str(value)
            for broker, answer in sorted(found.answers.items())
            if (value := getattr(answer, name)) is not None
        }
        if len(set(values.values())) > 1:
            text = f"unlike {what}: {', '.join(f'{broker} {value}' for broker, value in values.items())}"
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
    """No client lives in the future: a broker ignores subscriptions that are older than what it has."""
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
    """Brokers filter for the same subscriptions that the clients have, or, if no client says, for the same
    ones; a broker refuses pulls from a topic of its own that it knows no subscription of.
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
