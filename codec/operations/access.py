"""The resources that an operation accesses, as access control checks them (5.x
`DefaultAuthorizationContextBuilder`, which omits requests that address a position in the log).

A check passes if any of its actions is allowed; an operation needs all of its checks to pass. `permissions`
defines what this means for the accounts of 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec


class ResourceKind(StrEnum):
    """Kinds of resources, named as in 5.x policies, except that only rmq has messages."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    MESSAGE = "Message"


class Action(StrEnum):
    """Actions, named as in 5.x policies; 4.x has only PUB and SUB."""

    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"


PUB, SUB, CREATE, UPDATE, DELETE, GET = Action


class Access(msgspec.Struct, frozen=True):
    """One check. `named_by` is the path of attributes that leads to the name, from the header or else the
    body, also through lists.

    A cluster is always that of the broker, so its `named_by` is empty. A message is named in the header, by
    its commit-log offset or its offset message id; its topic decides.
    """

    kind: ResourceKind
    actions: tuple[Action, ...]
    named_by: str = ""

    def names(self, header: object, body: object) -> Iterator[str]:
        """Yield the names of the resources that a request accesses, in order and without duplicates."""
        path = self.named_by.split(".")
        start = header if hasattr(header, path[0]) else body
        seen: set[str] = set()
        for name in _walk(start, path):
            if name not in seen:
                seen.add(name)
                yield name


def on_topic(*actions: Action, named_by: str = "topic") -> Access:
    """Return a check of the topics at `named_by`."""
    return Access(ResourceKind.TOPIC, actions, named_by)


def on_group(*actions: Action, named_by: str = "consumer_group") -> Access:
    """Return a check of the consumer groups at `named_by`."""
    return Access(ResourceKind.GROUP, actions, named_by)


def on_cluster(*actions: Action) -> Access:
    """Return a check of the broker's cluster."""
    return Access(ResourceKind.CLUSTER, actions)


def on_message(*actions: Action, at: str) -> Access:
    """Return a check of the topic of the message that the field `at` of the header names."""
    return Access(ResourceKind.MESSAGE, actions, at)


def _walk(value: object, path: list[str]) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item, path)
    elif isinstance(value, str):
        yield value
    elif value is not None and path:
        yield from _walk(getattr(value, path[0], None), path[1:])
