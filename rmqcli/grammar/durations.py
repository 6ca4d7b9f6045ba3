"""Durations: `10s`, `1h30m`, `500ms`, `2d`. Units: ms s m h d w."""

from __future__ import annotations

import re

from rmqcli.grammar.errors import GrammarError

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"([0-9]{1,12})(ms|[smhdw])")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration_ms(text: str) -> int | None:
    """Return milliseconds, or None if the text is not a duration."""
    if not _WHOLE.fullmatch(text):
        return None
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def check_duration(option: str, text: str) -> None:
    """Raise GrammarError if the value of an option is not a duration."""
    if parse_duration_ms(text) is None:
        raise GrammarError(f"{option} {text}: expected a duration such as 10s, 5m or 1h30m")
