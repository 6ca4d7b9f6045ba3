"""Times: T of a range, @T or +DURATION of an option, numbers of files.

T is an ISO time (local unless it has a zone), epoch seconds (10 digits) or milliseconds (12 or 13), now, or a
duration before now, such as -1h.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from rmqcli.grammar.values import GrammarError, parse_duration_ms

_DIGITS = re.compile(r"[0-9]{1,19}")
_SECONDS = range(10**9, 10**10)  # numbers that are epoch seconds, of the years 2001 to 2286
_MILLISECONDS = range(978_307_200_000, 10**13)  # the years 2001 to 2286


def not_a_time(text: str) -> GrammarError:
    """Return the error for a text that is not a time."""
    return GrammarError(
        f"time '@{text}': expected an ISO time, epoch seconds or milliseconds (from 2001 on), 'now' or a duration "
        "such as -1h"
    )


def parse_time(text: str, now_ms: int) -> int:
    """Return epoch milliseconds of T (without the @); raise GrammarError for other texts."""
    found = try_time(text.strip(), now_ms)
    if found is None:
        raise not_a_time(text)
    return found


def parse_moment(option: str, text: str, now_ms: int) -> int:
    """Return epoch milliseconds of @T, or of +DURATION from now. Raise GrammarError for other texts."""
    ahead = parse_duration_ms(text[1:]) if text.startswith("+") else None
    found = try_time(text.removeprefix("@").strip(), now_ms) if ahead is None else now_ms + ahead
    if found is None:
        raise GrammarError(
            f"{option} {text}: expected an ISO time such as @2030-01-01T08:00, epoch seconds or milliseconds "
            "(from 2001 on), or +DURATION such as +90s"
        )
    return found


def parse_future(option: str, text: str, now_ms: int) -> int:
    """Like `parse_moment`, for a time of reading. Raise GrammarError for one that is not later than now."""
    found = parse_moment(option, text, now_ms)
    if found <= now_ms:
        raise GrammarError(f"{option} {text}: not in the future; rmq pull -o @T1:@T2 reads what is past")
    return found


def try_time(text: str, now_ms: int) -> int | None:
    """Return epoch milliseconds of T, or None for other texts."""
    if text == "now":
        return now_ms
    if _DIGITS.fullmatch(text):
        return _epoch_time(int(text))
    if text.startswith("-"):
        back = parse_duration_ms(text[1:])
        return None if back is None else max(0, now_ms - back)
    return _iso_time(text)


def epoch_ms(number: int) -> int:
    """Return the epoch milliseconds of a number in a file: ten digits are seconds, others milliseconds."""
    return number * 1000 if number in _SECONDS else number


def _epoch_time(number: int) -> int | None:
    if number in _SECONDS:
        return number * 1000
    return number if number == 0 or number in _MILLISECONDS else None


def _iso_time(text: str) -> int | None:
    # fromisoformat also accepts week dates and compact forms.
    if not re.match(r"[0-9]{4}-", text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        # Rounded, because a float of seconds may lie just below its millisecond.
        return max(0, int(moment.astimezone(UTC).timestamp() * 1000 + 0.5))
    except (ValueError, OverflowError, OSError):
        return None
