"""The attributes of topics and groups, and their changes (Java classes `TopicAttributes`,
`SubscriptionGroupAttributes`, `AttributeUtil`).

A change is `+key=value` or, for a topic or group that exists, `-key`. `message.type` is for proxies, which
check it, and for pops by priority. Attributes that this broker could not serve are refused: other kinds of
queues, compaction, and `reserve.time`, which Java's brokers also refuse without tiered storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from rmqcli.codec.bodies.config import TopicConfig

MESSAGE_TYPE = "message.type"
PRIORITY_FACTOR = "priority.factor"
VALUES = {
    # topics
    "queue.type": ("SimpleCQ",),
    "cleanup.policy": ("DELETE",),
    MESSAGE_TYPE: ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY"),
    # groups
    PRIORITY_FACTOR: tuple(str(number) for number in range(101)),
}
"""The accepted values of each attribute."""
TOPIC = frozenset(("queue.type", "cleanup.policy", MESSAGE_TYPE))
GROUP = frozenset((PRIORITY_FACTOR,))
UNCHANGEABLE = ("queue.type", "cleanup.policy")


def message_type(config: TopicConfig | None) -> str:
    """Return the attribute of a topic that sets the type of its messages; NORMAL without one."""
    attributes = None if config is None else config.attributes
    return (attributes or {}).get(MESSAGE_TYPE, "NORMAL")


def parse_changes(text: str | None) -> dict[str, str]:
    """Return the changes in a text such as `+message.type=FIFO,-queue.type`: signed key → value. Raises
    ValueError."""
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not key.startswith("+" if equals else "-"):
            raise ValueError(f"attributes look like +key=value or -key, separated by commas: {part!r}")
        if key in changes:
            raise ValueError(f"key duplication: {key}")
        changes[key] = value
    return changes


def altered(
    current: Mapping[str, str] | None, changes: Mapping[str, str], keys: Set[str], *, is_new: bool
) -> dict[str, str]:
    """Return the attributes after the changes; `keys` are the known ones. Raises ValueError, with Java's text
    if it has one.
    """
    attributes = dict(current or {})
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if sign not in ("+", "-") or f"{'-' if sign == '+' else '+'}{key}" in changes:
            raise ValueError(f"wrong format key: {signed}")
        if key not in keys:
            raise ValueError(f"unsupported key: {key}")
        if is_new and sign == "-":
            raise ValueError(f"only add attribute is supported while creating topic. key: {key}")
        if sign == "-" and key not in attributes:
            raise ValueError(f"attempt to delete a nonexistent key: {key}")
        if not is_new and key in UNCHANGEABLE:
            raise ValueError(f"attempt to update an unchangeable attribute. key: {key}")
        if sign == "-":
            del attributes[key]
        elif value in VALUES[key]:
            attributes[key] = value
        else:
            served = VALUES[key]
            text = ", ".join(served) if len(served) < 10 else f"{served[0]} to {served[-1]}"
            raise ValueError(f"this broker does not serve {key}={value}; it serves: {text}")
    return attributes
