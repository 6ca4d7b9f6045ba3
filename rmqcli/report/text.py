"""Text of others, made safe to look at: what it is made of can be seen, and it cannot change what is near."""

from __future__ import annotations

from rmqcli.render.text import one_line

_MAX = 4000


def clean(text: str) -> str:
    r"""Return the text with what cannot be seen as `\x1b` or `\u202e`, cut at 4,000 characters."""
    found = one_line(text[: _MAX + 1])
    return found if len(text) <= _MAX else f"{found[:_MAX]}… ({len(text):,} characters)"
