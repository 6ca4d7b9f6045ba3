"""Counts and ranges in sentences."""

from __future__ import annotations


def plural(what: str) -> str:
    """Return `messages`, `entries`, `bodies`."""
    return f"{what[:-1]}ies" if what.endswith(("ry", "dy")) else f"{what}s"


def many(count: int, what: str) -> str:
    """Return `1 message` or `2,000 messages`."""
    return f"{count:,} {what if count == 1 else plural(what)}"


def messages_at(begin: int, end: int) -> str:
    """Return `message 5` or `messages 5 to 8` for the offsets [begin, end)."""
    return f"message {begin}" if end - begin == 1 else f"messages {begin} to {end - 1}"


def gone(begin: int, end: int) -> str:
    """Return `message 5 no longer exists` or `messages 5 to 8 no longer exist`."""
    return f"{messages_at(begin, end)} no longer exist{'s' if end - begin == 1 else ''}"
