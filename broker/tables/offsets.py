"""The offsets up to which groups have consumed queues (Java class `ConsumerOffsetManager`), and up to which
delay levels have been delivered (`ScheduleMessageService`).

An offset is the next queue offset to read or deliver. No range is checked: a smaller offset than the stored
one is accepted. `dirty` says that something changed since the last save.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper


class OffsetTable:
    """Topic and group → queue id → offset. They are saved as `topic@group`: no topic name contains `@`."""

    def __init__(self) -> None:
        self._table: dict[str, dict[int, int]] = {}
        self.dirty = False

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        key = f"{topic}@{group}"
        queues = self._table.get(key)
        if queues is None:
            queues = self._table[key] = {}
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self.dirty = True

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset, -1 when the group committed none."""
        queues = self._table.get(f"{topic}@{group}")
        return -1 if queues is None else queues.get(queue_id, -1)

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        return self._table.get(f"{topic}@{group}", {})

    def topics_of(self, group: str) -> list[str]:
        """The topics for which a group has offsets."""
        return [topic for topic, name in self._pairs() if name == group]

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have offsets for a topic."""
        return [group for name, group in self._pairs() if name == topic]

    def smallest(self, topic: str, without: Collection[str] = ()) -> dict[int, int]:
        """Queue id → the smallest offset of all groups of a topic except some."""
        least: dict[int, int] = {}
        for name, group in self._pairs():
            if name != topic or group in without:
                continue
            for queue_id, offset in self.queues(group, topic).items():
                least[queue_id] = min(offset, least.get(queue_id, offset))
        return least

    def clone(self, source: str, target: str, topic: str) -> None:
        """Gives `target` the offsets that `source` has for a topic."""
        queues = self._table.get(f"{topic}@{source}")
        if queues is not None:
            self._table[f"{topic}@{target}"] = dict(queues)
            self.dirty = True

    def remove_group(self, group: str) -> None:
        for topic in self.topics_of(group):
            del self._table[f"{topic}@{group}"]
            self.dirty = True

    def wrapper(self) -> ConsumerOffsetSerializeWrapper:
        return ConsumerOffsetSerializeWrapper(
            offset_table={key: dict(table) for key, table in self._table.items()}
        )

    def load(self, wrapper: ConsumerOffsetSerializeWrapper) -> None:
        self._table = {key: dict(table) for key, table in wrapper.offset_table.items()}
        self.dirty = False

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for key in list(self._table):
            topic, found, group = key.partition("@")
            if found:
                yield topic, group


class DelayOffsets:
    """Delay level → offset. Level N (from 1) is queue N-1 of SCHEDULE_TOPIC_XXXX."""

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
