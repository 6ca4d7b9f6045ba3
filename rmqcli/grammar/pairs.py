"""Texts of the form NAME=VALUE, each name once."""

from __future__ import annotations

from collections.abc import Iterable

from rmqcli.grammar.errors import GrammarError


def by_name(option: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the pairs as a dict; raise GrammarError if a name has two: none of them is dropped silently."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise GrammarError(f"{option} {name}: given twice; name it once")
        found[name] = value
    return found
