"""Tag expressions: `*` (or nothing) for all, else tags joined by `||` (Java class `FilterAPI`).

A consumer compares the whole TAGS value of a message with each tag; the broker compares hashes of them, so what it lets
through must be compared again.
"""

from __future__ import annotations

from collections.abc import Set

from codec.errors import SelectorError
from codec.hashing import tags_code

__all__ = ["ALL", "accepts_code", "accepts_tag", "parse_tags", "tag_codes"]

ALL = "*"


def parse_tags(expression: str | None) -> frozenset[str]:
    """The tags of an expression; an empty set means every message. SelectorError when it is only separators."""
    if not expression or expression == ALL:
        return frozenset()
    if not expression.replace("||", ""):
        raise SelectorError(f"no tag in the expression {expression!r}")
    return frozenset(tag.strip() for tag in expression.split("||") if tag.strip())


def tag_codes(tags: Set[str]) -> frozenset[int]:
    """The hash of each tag, as consume queue entries hold it."""
    return frozenset(map(tags_code, tags))


def accepts_tag(tags: Set[str], tag: str | None) -> bool:
    """Whether a message with this TAGS value is wanted."""
    return not tags or tag in tags


def accepts_code(codes: Set[int], code: int) -> bool:
    """Whether a queue entry with this tags code may be wanted."""
    return not codes or code in codes
