"""How far each delay level has been delivered (Java class `ScheduleMessageService`).

Level N (from 1) is queue N-1 of SCHEDULE_TOPIC_XXXX. An offset is the next queue offset to deliver.
"""

from __future__ import annotations

from codec.bodies.offsets import DelayOffsetSerializeWrapper


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
