"""Ranges of Monitoring Plugins: a figure outside its range raises an alert.

`10` is 0 to 10, `10:` at least 10, `~:10` at most 10, `10:20` between; `@10:20` alerts inside instead.
Both ends belong to the range.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from rmqcli.grammar.errors import GrammarError

_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"(@?)(?:(~|{_NUMBER})?:)?({_NUMBER})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Threshold:
    """`text` is what was given."""

    text: str
    low: float
    high: float
    inside: bool = False

    def alerts(self, value: float) -> bool:
        return (self.low <= value <= self.high) == self.inside


def parse_threshold(text: str) -> Threshold:
    """Return the range; GrammarError for another form."""
    found = _RANGE.fullmatch(text.strip())
    if found is None or not text.strip("@ ") or text.strip() == ":":
        raise GrammarError(f"{text!r} is not a range: expected MAX, MIN:, MIN:MAX, ~:MAX or @MIN:MAX")
    inside, low, high = found.groups()
    start = -math.inf if low == "~" else float(low or 0)
    end = math.inf if high is None else float(high)
    if start > end:
        raise GrammarError(f"{text!r} is not a range: its start is above its end")
    return Threshold(text.strip(), start, end, bool(inside))
