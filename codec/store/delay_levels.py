"""Delay levels: level N (from 1) delays a message by the N-th duration of `messageDelayLevel`.

A delayed message waits in queue N - 1 of SCHEDULE_TOPIC_XXXX (Java `ScheduleMessageService`).
"""

from __future__ import annotations

import re

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""Java's default `messageDelayLevel`."""

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"([0-9]{1,9})([smhd])")


class DelayLevels:
    """The durations of a `messageDelayLevel` string, in ms; `highest` is the number of the last level."""

    __slots__ = ("delays_ms", "highest")

    def __init__(self, text: str = DEFAULT_DELAY_LEVELS) -> None:
        """Parse space-separated numbers with the units s, m, h and d. Raises ValueError for anything else."""
        self.delays_ms = tuple(map(_delay_ms, text.split()))
        self.highest = len(self.delays_ms)
        if not self.delays_ms:
            raise ValueError("messageDelayLevel has no level")

    def delay_ms(self, level: int) -> int:
        """Return the delay of a level in ms; a level above the highest counts as the highest."""
        return self.delays_ms[min(level, self.highest) - 1]


def _delay_ms(word: str) -> int:
    match = _LEVEL.fullmatch(word)
    if match is None:
        raise ValueError(
            f"messageDelayLevel: {word!r} is not a delay level; levels look like '1s 5s 10s 1m 2h'"
        )
    return int(match[1]) * _UNIT_MS[match[2]]


DEFAULT_LEVELS = DelayLevels()
