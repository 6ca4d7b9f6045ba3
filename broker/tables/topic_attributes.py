"""The attributes of a topic and their changes (Java classes `TopicAttributes`, `AttributeUtil`).

A change is `+key=value` or, for a topic that exists, `-key`. `message.type` is for proxies, which check it;
no broker does. What this broker could not serve is refused: other kinds of queues, compaction, and
`reserve.time`, which Java's brokers refuse too without tiered storage.
"""

from __future__ import annotations

from collections.abc import Mapping

VALUES = {
    "queue.type": ("SimpleCQ",),
    "cleanup.policy": ("DELETE",),
    "message.type": ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION"),
}
"""The values of each attribute that can be set."""
UNCHANGEABLE = ("queue.type", "cleanup.policy")


def parse_changes(text: str | None) -> dict[str, str]:
    """Return the changes in a text such as `+message.type=FIFO,-queue.type`: signed key → value. ValueError."""
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not key.startswith("+" if equals else "-"):
            raise ValueError(f"attributes look like +key=value or -key, separated by commas: {part!r}")
        if key in changes:
            raise ValueError(f"key duplication: {key}")
        changes[key] = value
    return changes


def altered(current: Mapping[str, str] | None, changes: Mapping[str, str], *, is_new: bool) -> dict[str, str]:
    """Return the attributes after the changes. ValueError, with Java's text where it has one."""
    attributes = dict(current or {})
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if sign not in ("+", "-") or f"{'-' if sign == '+' else '+'}{key}" in changes:
            raise ValueError(f"wrong format key: {signed}")
        if key not in VALUES:
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
            raise ValueError(f"this broker does not serve {key}={value}; it serves: {', '.join(VALUES[key])}")
    return attributes
