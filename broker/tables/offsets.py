"""The offsets up to which groups have consumed queues (Java class `ConsumerOffsetManager`), and up to which
delay levels have been delivered (`ScheduleMessageService`).

An offset is the next queue offset to read or deliver. Ranges are not checked: an offset smaller than the
stored one is accepted. `dirty` is True if anything changed since the last save.
"""

from __future__ import annotations

from collections.abc import Mapping

from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper


class OffsetTable:
    """Topic and group → queue id → offset. The key is saved as `topic@group`, because no topic name contains
    `@`.

    `len` counts offsets.
    """

    def __init__(self) -> None:
        self._table: dict[str, dict[int, int]] = {}
        self._groups: dict[str, dict[str, None]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        self._pulled: dict[str, dict[int, int]] = {}
        self._count = 0
        self.dirty = False

    def __len__(self) -> int:
        return self._count

    def replace(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Replace a committed offset. Return False, and change nothing, if there is none yet."""
        queues = self._table.get(f"{topic}@{group}")
        if queues is None or queue_id not in queues:
            return False
        if queues[queue_id] != offset:
            queues[queue_id] = offset
            self.dirty = True
        return True

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        if self.replace(group, topic, queue_id, offset):
            return
        self._queues(f"{topic}@{group}")[queue_id] = offset
        self._count += 1
        self.dirty = True

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the committed offset; -1 if the group has committed none."""
        queues = self._table.get(f"{topic}@{group}")
        return -1 if queues is None else queues.get(queue_id, -1)

    def note_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note the offset of a pull. It is not saved, and not kept unless there is a committed one."""
        key = f"{topic}@{group}"
        queues = self._table.get(key)
        if queues is not None and queue_id in queues:
            self._pulled.setdefault(key, {})[queue_id] = offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset of the last pull; -1 if none is known (5.x `queryPullOffset`)."""
        return self._pulled.get(f"{topic}@{group}", {}).get(queue_id, -1)

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        return self._table.get(f"{topic}@{group}", {})

    def groups(self) -> set[str]:
        """Return all groups that committed an offset."""
        return set(self._topics)

    def topics_of(self, group: str) -> list[str]:
        """Return the topics for which a group has offsets."""
        return list(self._topics.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets for a topic."""
        return list(self._groups.get(topic, ()))

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the offsets of `source` for a topic to `target`."""
        queues = self._table.get(f"{topic}@{source}")
        if queues is not None:
            self._set(f"{topic}@{target}", dict(queues))
            self.dirty = True

    def remove_group(self, group: str) -> None:
        for topic in self._topics.pop(group, ()):
            self._count -= len(self._table.pop(f"{topic}@{group}"))
            self._pulled.pop(f"{topic}@{group}", None)
            groups = self._groups[topic]
            del groups[group]
            if not groups:
                del self._groups[topic]
            self.dirty = True

    def remove_topic(self, topic: str) -> None:
        for group in self._groups.pop(topic, ()):
            self._count -= len(self._table.pop(f"{topic}@{group}"))
            self._pulled.pop(f"{topic}@{group}", None)
            topics = self._topics[group]
            del topics[topic]
            if not topics:
                del self._topics[group]
            self.dirty = True

    def wrapper(self) -> ConsumerOffsetSerializeWrapper:
        """Return the table in the form in which it is saved. It shares the offsets with this table, not
        copies."""
        return ConsumerOffsetSerializeWrapper(offset_table=dict(self._table))

    def load(self, wrapper: ConsumerOffsetSerializeWrapper) -> None:
        """Add a saved table."""
        for key, queues in wrapper.offset_table.items():
            self._set(key, dict(queues))
        self.dirty = False

    def _queues(self, key: str) -> dict[int, int]:
        queues = self._table.get(key)
        if queues is None:
            queues = self._table[key] = {}
            topic, *groups = key.split("@")
            # A saved key of another form is kept, but belongs to no group or topic.
            if len(groups) == 1:
                (group,) = groups
                self._groups.setdefault(topic, {})[group] = None
                self._topics.setdefault(group, {})[topic] = None
        return queues

    def _set(self, key: str, offsets: dict[int, int]) -> None:
        queues = self._queues(key)
        self._count += len(offsets) - len(queues)
        queues.clear()
        queues.update(offsets)


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
        """Return the levels that have an offset."""
        return sorted(self._offsets)

    def wrapper(self) -> DelayOffsetSerializeWrapper:
        return DelayOffsetSerializeWrapper(offset_table=dict(self._offsets))

    def load(self, wrapper: DelayOffsetSerializeWrapper) -> None:
        self._offsets = dict(wrapper.offset_table)
        self.dirty = False
