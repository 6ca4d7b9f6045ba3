"""Tag expressions: `*` (or nothing) for all messages, otherwise tags joined by `||` (Java class `FilterAPI`).

A consumer compares the TAGS value of a message with each tag. The broker compares only hashes, so the
messages that it sends must be compared again.
"""

from __future__ import annotations

from collections.abc import Set

from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.core.hashing import tags_code
from rmqcli.codec.errors import SelectorError

ALL = "*"


def parse_tags(expression: str | None) -> frozenset[str]:
    """Return the tags of an expression; an empty set selects every message. Raises SelectorError if there are
    only separators.
    """
    if not expression or expression == ALL:
        return frozenset()
    if not expression.replace("||", ""):
        raise SelectorError(f"no tag in the expression {expression!r}")
    return frozenset(tag.strip() for tag in expression.split("||") if tag.strip())


def tag_codes(tags: Set[str]) -> frozenset[int]:
    """Return the hashes of tags, as in consume-queue entries."""
    return frozenset(map(tags_code, tags))


def tag_subscription(topic: str, expression: str | None, version: int) -> SubscriptionData:
    """Return the subscription that a client sends for a tag expression. Of two subscriptions, the one with
    the higher `version` (ms) takes precedence.
    """
    tags = sorted(parse_tags(expression))
    return SubscriptionData(
        topic=topic,
        sub_string=expression or ALL,
        tags_set=tags,
        code_set=[tags_code(tag) for tag in tags],
        sub_version=version,
    )
