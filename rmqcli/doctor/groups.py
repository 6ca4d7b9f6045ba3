"""Checks of a consumer group: whether it exists, has clients, and whether their subscriptions agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rmqcli.client import ClientError
from rmqcli.codec.bodies.running import ConsumerRunningInfo
from rmqcli.doctor.finding import Finding, Status
from rmqcli.doctor.survey import GroupSurvey, Survey
from rmqcli.render.text import many


def group(survey: Survey) -> Iterator[Finding]:
    """Check that the group is known and has clients, which subscribe to the topic."""
    found = survey.group
    if found is None:
        return
    yield _clients(found, survey.topic)


def _clients(found: GroupSurvey, topic: str | None) -> Finding:
    connection = found.connection
    if isinstance(connection, ClientError):
        return Finding(Status.SKIP, "group", found.name, f"cannot be asked about: {connection}")
    if connection is None:
        if not found.settings:
            fix = f"start a consumer, or create it with: rmq group create {found.name}"
            return Finding(Status.FAIL, "group", found.name, "no broker knows the group", fix)
        return Finding(Status.WARN, "group", found.name, "no client is running", "start a consumer")
    topics = sorted(connection.subscription_table)
    if topic is not None and topics and topic not in topics:
        text = f"subscribes to {', '.join(topics)}, not to {topic}"
        return Finding(Status.FAIL, "group", found.name, text, "subscribe to the topic, or check its name")
    return Finding(Status.OK, "group", found.name, many(len(connection.connection_set), "running client"))


def subscriptions(survey: Survey) -> Iterator[Finding]:
    """Check that all clients of the group subscribe to the same topics with the same expressions.

    Otherwise the queues of a topic are divided among all clients, even those that do not subscribe to it, and
    the messages in the queues of those are not consumed.
    """
    found = survey.group
    if found is not None:
        yield from alike(found.name, found.states)


def alike(group: str, states: Mapping[str, ConsumerRunningInfo]) -> Iterator[Finding]:
    """Compare the subscriptions of clients; nothing without any."""
    if not states:
        return
    subscribed = {client: _expressions(state) for client, state in states.items()}
    every = set().union(*subscribed.values())
    unlike = sorted(one for one in every if any(one not in own for own in subscribed.values()))
    if not unlike:
        text = f"{many(len(subscribed), 'client')} with the same subscriptions"
        yield Finding(Status.OK, "subscriptions", group, text)
        return
    for one in unlike:
        having = sorted(client for client, own in subscribed.items() if one in own)
        # an expression has different meanings as a list of tags and as SQL92
        kind = f" ({one[2]})" if any(same[:2] == one[:2] and same != one for same in every) else ""
        text = f"{one[0]} {one[1]!r}{kind} is subscribed to by {', '.join(having)} only"
        fix = "give all clients of the group the same subscriptions, or use two groups"
        yield Finding(Status.FAIL, "subscriptions", group, text, fix)


def _expressions(state: ConsumerRunningInfo) -> set[tuple[str, str, str]]:
    return {(data.topic, data.sub_string, data.expression_type) for data in state.subscription_set}
