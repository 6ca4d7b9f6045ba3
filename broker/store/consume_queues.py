"""All consume queues: `consumequeue/<topic>/<queueId>/`, and `consumequeue_ext/<topic>/<queueId>/` where they are extended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from broker.store.consume_queue import ConsumeQueue
from broker.store.consume_queue_ext import QueueExtension
from broker.store.files import remove_empty_folder

__all__ = ["ConsumeQueues"]


class ConsumeQueues:
    """Queues by topic and id; a queue comes into being with its first unit.

    `extensions` is the folder of their extensions and the size of its files in bytes, None for queues without.
    """

    __slots__ = ("_by_topic", "_extensions", "_file_size", "_folder")

    def __init__(self, folder: Path, file_size: int, extensions: tuple[Path, int] | None = None) -> None:
        self._folder = folder
        self._file_size = file_size
        self._extensions = extensions
        self._by_topic: dict[str, dict[int, ConsumeQueue]] = {}

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self._by_topic.values():
            yield from queues.values()

    @property
    def by_topic(self) -> dict[str, dict[int, ConsumeQueue]]:
        return self._by_topic

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self._by_topic.get(topic)
        return queues.get(queue_id) if queues else None

    def ensure(self, topic: str, queue_id: int) -> ConsumeQueue:
        queues = self._by_topic.setdefault(topic, {})
        queue = queues.get(queue_id)
        if queue is None:
            folder = self._folder / topic / str(queue_id)
            extension = self._extension(topic, queue_id)
            queue = queues[queue_id] = ConsumeQueue(topic, queue_id, folder, self._file_size, extension)
        return queue

    def _extension(self, topic: str, queue_id: int) -> QueueExtension | None:
        if self._extensions is None:
            return None
        folder, file_size = self._extensions
        return QueueExtension(folder / topic / str(queue_id), file_size)

    def _remove_folder(self, topic: str) -> None:
        """The folders of a topic that has no queue left."""
        remove_empty_folder(self._folder / topic)
        if self._extensions is not None:
            remove_empty_folder(self._extensions[0] / topic)

    def load(self) -> None:
        """Maps every queue folder. StoreSizeMismatch, StoreDamaged."""
        if not self._folder.is_dir():
            return
        for topic in sorted(self._folder.iterdir()):
            for folder in sorted(topic.iterdir()) if topic.is_dir() else ():
                if folder.is_dir() and folder.name.isdigit():
                    self.ensure(topic.name, int(folder.name)).load()

    @property
    def max_physical_offset(self) -> int:
        """End of the last record that any queue knows; 0 if none."""
        return max((queue.max_physical_offset for queue in self), default=0)

    def topics(self) -> list[str]:
        return list(self._by_topic)

    def destroy_topic(self, topic: str) -> int:
        """Removes a topic's queues and folder. Returns how many queues there were."""
        queues = self._by_topic.pop(topic, {})
        for queue in queues.values():
            queue.destroy()
        self._remove_folder(topic)
        return len(queues)

    def destroy_queue(self, queue: ConsumeQueue) -> None:
        queues = self._by_topic.get(queue.topic, {})
        queues.pop(queue.queue_id, None)
        queue.destroy()
        if not queues:
            self._by_topic.pop(queue.topic, None)
            self._remove_folder(queue.topic)

    def destroy(self, topics: Iterable[str] | None = None) -> None:
        for topic in list(self._by_topic if topics is None else topics):
            self.destroy_topic(topic)

    def close(self) -> None:
        for queue in self:
            queue.close()
        self._by_topic = {}
