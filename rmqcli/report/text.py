"""Text of others, made safe to look at: what it is made of can be seen, and it cannot change what is near."""

from __future__ import annotations

import re

from rmqcli.render.text import printable

_UNSEEN = re.compile(
    "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufdd0-\ufdef\ud800-\udfff]|[\ufffe\uffff\U0001fffe-\U0010ffff]"
)
"""Marks of direction, which turn the text around them, halves of characters, and numbers of no character."""
_MAX = 4000


def clean(text: str) -> str:
    r"""Return the text with control characters and the like as `\x1b` or `\u202e`, cut at 4,000 characters."""
    found = printable(text[: _MAX + 1]).replace("\n", "\\n").replace("\t", "\\t")
    found = _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", found)
    return found if len(text) <= _MAX else f"{found[:_MAX]}… ({len(text):,} characters)"
