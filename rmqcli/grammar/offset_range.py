"""RANGE: the messages that a command reads, by queue offset or store time; of a commit log by its offsets.

    start    from the first message to the end
    end      only messages that arrive later
    N        from offset N to the end
    -N       the last N messages
    A:B      offsets A to B, excluding B; an empty side is open
    @T       from time T to the end
    @T1:T2   times T1 to T2, excluding T2 (or @T1:@T2)

T is an ISO time (local unless it has a zone), epoch seconds (10 digits) or milliseconds (12 or 13), now, or a
duration before now: -1h, -1d12h, -500ms. Other numbers are refused: microseconds, and times before 2001
except 0. A time may contain colons; an ambiguous text is refused.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from rmqcli.grammar.times import not_a_time, parse_time, try_time
from rmqcli.grammar.values import GrammarError

Item = TypeVar("Item")

_DIGITS = re.compile(r"[0-9]{1,19}")
_LAST = re.compile(r"-[0-9]{1,19}")
_MAX_OFFSET = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A half-open range. All None: everything.

    `last` excludes the others. `begin` and `end` are offsets; `begin_time` and `end_time` are store times
    (epoch ms). `only_new` is `end`.
    """

    begin: int | None = None
    end: int | None = None
    begin_time: int | None = None
    end_time: int | None = None
    last: int | None = None
    only_new: bool = False

    @property
    def bounds(self) -> tuple[tuple[int | None, int | None], tuple[int | None, int | None]]:
        """Half-open bounds of offsets and of store times."""
        return (self.begin, self.end), (self.begin_time, self.end_time)

    def holds_time(self, store_timestamp: int) -> bool:
        """Return True if the times of the range include this store time."""
        after = self.begin_time is None or store_timestamp >= self.begin_time
        return after and (self.end_time is None or store_timestamp < self.end_time)

    def holds_offset(self, offset: int) -> bool:
        """Return True if the offsets of the range include this one."""
        after = self.begin is None or offset >= self.begin
        return after and (self.end is None or offset < self.end)

    def select(self, items: Iterable[Item], place: Callable[[Item], tuple[int, int]]) -> Iterator[Item]:
        """Return the items whose (offset, store time) is in the range; for -N, the last N items."""
        if self.only_new:
            return iter(())
        if self.last is not None:
            return iter(deque(items, self.last))
        placed = ((item, place(item)) for item in items)
        return (
            item for item, (offset, time) in placed if self.holds_offset(offset) and self.holds_time(time)
        )

    def offsets(self, first: int, end: int) -> tuple[int, int]:
        """Return the offsets to read of a queue that holds [first, end)."""
        if self.only_new:
            return end, end
        begin = min(max(first, self.begin if self.begin is not None else first), end)
        if self.last is not None:
            begin = max(first, end - self.last)
        return begin, max(begin, min(end, self.end if self.end is not None else end))


def parse_range(text: str, now_ms: int) -> OffsetRange:
    """Return the range. Raise GrammarError for other texts."""
    text = text.strip()
    if text == "start":
        return OffsetRange()
    if text == "end":
        return OffsetRange(only_new=True)
    if text.startswith("@"):
        return _time_range(text[1:], now_ms)
    if _LAST.fullmatch(text):
        return OffsetRange(last=_offset(text[1:], text))
    begin, colon, end = text.partition(":")
    if not colon:
        return OffsetRange(begin=_offset(begin, text))
    return _ordered(OffsetRange(begin=_side(begin, text, "start"), end=_side(end, text, "end")), text)


def _side(side: str, text: str, open_word: str) -> int | None:
    return None if side.strip() in ("", open_word) else _offset(side.strip(), text)


def _offset(digits: str, text: str) -> int:
    if not _DIGITS.fullmatch(digits) or int(digits) > _MAX_OFFSET:
        raise GrammarError(
            f"range {text!r}: {digits!r} is not an offset; expected start, end, N, -N, A:B, @T or @T1:T2"
            f"{_time_meant(text)}"
        )
    return int(digits)


def _time_meant(text: str) -> str:
    """Return a suggestion if the text would be a time after an @."""
    try:
        _time_range(text, 0)
    except GrammarError:
        return ""
    return f"; did you mean '@{text}'?"


def _ordered(found: OffsetRange, text: str) -> OffsetRange:
    for begin, end in ((found.begin, found.end), (found.begin_time, found.end_time)):
        if begin is not None and end is not None and end < begin:
            raise GrammarError(f"range {text!r}: the end is before the start")
    return found


def _time_range(text: str, now_ms: int) -> OffsetRange:
    """Parse a single time, or two times separated by one of the colons; exactly one such reading must be
    valid.
    """
    whole = try_time(text, now_ms)
    if whole is not None:
        return OffsetRange(begin_time=whole)
    colons = [place for place, character in enumerate(text) if character == ":"]
    readings = {found for place in colons if (found := _split_times(text, place, now_ms)) is not None}
    if len(readings) > 1:
        raise GrammarError(f"range '@{text}' is ambiguous; write @T1:@T2")
    if not readings:
        raise not_a_time(text)
    return _ordered(readings.pop(), f"@{text}")


def _split_times(text: str, place: int, now_ms: int) -> OffsetRange | None:
    left, right = text[:place], text[place + 1 :].removeprefix("@")
    begin, end = try_time(left, now_ms), try_time(right, now_ms)
    if (left and begin is None) or (right and end is None):
        return None
    return OffsetRange(begin_time=begin, end_time=end)


TargetKind = Literal["start", "end", "offset", "shift", "time"]


def parse_target(text: str, now_ms: int) -> tuple[TargetKind, int]:
    """Return the target of `offsets reset --to`: `start`, `end`, N, ±N from the committed offset, @T."""
    text = text.strip()
    if text == "start":
        return "start", 0
    if text == "end":
        return "end", 0
    if text.startswith("@"):
        return "time", parse_time(text[1:], now_ms)
    sign = {"+": 1, "-": -1}.get(text[:1], 0)
    if sign:
        return "shift", sign * _target_number(text[1:], text)
    return "offset", _target_number(text, text)


def _target_number(digits: str, text: str) -> int:
    if not _DIGITS.fullmatch(digits) or int(digits) > _MAX_OFFSET:
        raise GrammarError(f"target {text!r}: expected start, end, N, +N, -N or @T{_time_meant(text)}")
    return int(digits)
