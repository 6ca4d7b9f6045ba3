"""Sizes: `64M`, `1.5GiB`, `4096`. K, M, G and T are powers of 1024, with or without `B` or `iB`."""

from __future__ import annotations

import re

from rmqcli.grammar.errors import GrammarError

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = ("", "K", "M", "G", "T")


def parse_size(option: str, text: str) -> int:
    """Return bytes, at least 1; raise GrammarError, which names the option."""
    match = _SIZE.fullmatch(text.strip())
    found = 0 if match is None else int(float(match[1]) * 1024 ** _UNITS.index(match[2].upper()))
    if found < 1:
        raise GrammarError(f"{option} {text}: expected a size such as 64M or 1G")
    return found
