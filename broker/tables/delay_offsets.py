"""The delay levels and how far each has been delivered (Java class `ScheduleMessageService`).

Level N (from 1) is queue N-1 of SCHEDULE_TOPIC_XXXX. An offset is the next queue offset to deliver.
"""

from __future__ import annotations

from codec.bodies.offsets import DelayOffsetSerializeWrapper

__all__ = ["DEFAULT_LEVELS", "DelayLevels", "DelayOffsets"]

DEFAULT_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayLevels:
    """The table `messageDelayLevel`: blank-separated numbers with the units s, m, h, d. ValueError for anything else."""

    def __init__(self, text: str = DEFAULT_LEVELS) -> None:
        self.delays_ms = tuple(_delay_ms(word) for word in text.split())
        if not self.delays_ms:
            raise ValueError("messageDelayLevel has no level")
        self.highest = len(self.delays_ms)

    def delay_ms(self, level: int) -> int:
        """The delay of a level in ms; level 1 is the first."""
        return self.delays_ms[min(level, self.highest) - 1]


def _delay_ms(word: str) -> int:
    unit = UNIT_MS.get(word[-1:])
    if unit is None or not word[:-1].isascii() or not word[:-1].isdigit():
        raise ValueError(f"messageDelayLevel: not a delay: {word!r}; write a number and s, m, h or d")
    return int(word[:-1]) * unit


class DelayOffsets:
    """Level → next queue offset. `dirty` says that something changed since the last save."""

    def __init__(self) -> None:
        self._offsets: dict[int, int] = {}
        self.dirty = False

    def get(self, level: int) -> int:
        return self._offsets.get(level, 0)

    def set(self, level: int, offset: int) -> None:
        if self._offsets.get(level) != offset:
            self._offsets[level] = offset
            self.dirty = True

    def levels(self) -> list[int]:
        """The levels that have a state."""
        return sorted(self._offsets)

    def wrapper(self) -> DelayOffsetSerializeWrapper:
        return DelayOffsetSerializeWrapper(offset_table=dict(self._offsets))

    def load(self, wrapper: DelayOffsetSerializeWrapper) -> None:
        self._offsets = dict(wrapper.offset_table)
        self.dirty = False
