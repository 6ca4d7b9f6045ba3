"""All consume queues: `consumequeue/<topic>/<queueId>/`, and `consumequeue_ext/<topic>/<queueId>/` for their
extensions.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from zlib import crc32

from rmqcli.broker.disk import Disk
from rmqcli.broker.store.batches import Hold
from rmqcli.broker.store.config import CONSUME_QUEUE_FILE_SIZE
from rmqcli.broker.store.consume_queue import ConsumeQueue
from rmqcli.broker.store.consume_queue_ext import QueueExtension
from rmqcli.broker.store.segment import Mappings
from rmqcli.broker.store.segment_list import ADOPTED, SegmentList
from rmqcli.codec.store.consume_queue import ENTRY_SIZE
from rmqcli.codec.store.file_names import is_queue_id

_log = logging.getLogger(__name__)


class ConsumeQueues:
    """Queues by topic and id; a queue is created with its first entry.

    A `file_size` of None adopts the size of existing files, otherwise Java's default. `extensions` is the
    folder of the extensions and the size of their files in bytes; None for queues without extensions.
    """

    __slots__ = (
        "_adopts_size",
        "_disk",
        "_extensions",
        "_folder",
        "by_topic",
        "file_size",
        "filling",
        "mappings",
        "touched",
    )

    def __init__(
        self, disk: Disk, folder: Path, file_size: int | None, extensions: tuple[Path, int] | None = None
    ) -> None:
        self._disk = disk
        self._folder = folder
        self.file_size = file_size or CONSUME_QUEUE_FILE_SIZE
        self._adopts_size = file_size is None
        self._extensions = extensions
        self.by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        self.mappings = Mappings()
        self.touched: dict[ConsumeQueue, None] = {}
        """Queues that may have unflushed entries, in order: flushes examine only these."""
        self.filling: list[ConsumeQueue] = []
        """Queues whose last file was nearly full at a flush."""

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self.by_topic.values():
            yield from queues.values()

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.by_topic.get(topic)
        return queues.get(queue_id) if queues else None

    def ensure(self, topic: str, queue_id: int) -> ConsumeQueue:
        queues = self.by_topic.setdefault(topic, {})
        queue = queues.get(queue_id)
        if queue is None:
            place = Path(topic, str(queue_id))
            extension = None
            if self._extensions is not None:
                extension = QueueExtension(self._disk, self._extensions[0] / place, self._extensions[1])
            queue = queues[queue_id] = ConsumeQueue(
                self._disk,
                topic,
                queue_id,
                self._folder / place,
                self.file_size,
                extension,
                self.mappings,
                self.touched,
            )
        return queue

    @asynccontextmanager
    async def holding(self, topic: str, queue_id: int) -> AsyncIterator[Hold]:
        """Reserve a queue for a long batch, once no other batch has it reserved."""
        # Looked up again after each wait: another batch may have been first, or the topic deleted meanwhile.
        while (queue := self.ensure(topic, queue_id)).hold is not None:
            await queue.hold.ended()
        hold = queue.hold = Hold()
        queue.ready_until = 0
        try:
            yield hold
        finally:
            queue.hold = None
            hold.end()

    def survey(self) -> None:
        """Find the files of every queue without changing anything. Raises StoreSizeMismatch. Blocks."""
        self._find()
        other = self._other_size([queue.segments for queue in self])
        if other is not None and self._adopts_size and other[2] % ENTRY_SIZE == 0:
            self.file_size = other[2]
            self.by_topic.clear()  # not replaced: other objects hold a reference to it
            _log.info(ADOPTED, "mappedFileSizeConsumeQueue", self.file_size)
            self._find()
            other = None
        extensions = [queue.extension.segments for queue in self if queue.extension is not None]
        for refused, path, length in filter(None, (other, self._other_size(extensions))):
            raise refused.mismatch(path, length)

    def _find(self) -> None:
        for topic in self._disk.list(self._folder):
            for folder in self._disk.list(topic):
                state = self._disk.state(folder)
                if state is not None and state.is_folder and is_queue_id(folder.name):
                    self.ensure(topic.name, int(folder.name)).survey()

    @staticmethod
    def _other_size(lists: Iterable[SegmentList]) -> tuple[SegmentList, Path, int] | None:
        """Return the list, path and length of a file that reveals a size other than the setting; None if
        there is none. No file may have the configured size, and two must share another one, or the only
        length is greater.
        """
        files: dict[int, list[tuple[SegmentList, Path]]] = {}
        for one in lists:
            for path, length in one.found_files:
                if length == one.size:
                    return None
                files.setdefault(length, []).append((one, path))
        length, found = max(files.items(), key=lambda item: len(item[1]), default=(0, []))
        if len(found) > 1 or (len(files) == 1 and length > found[0][0].size):
            return *found[0], length
        return None

    def open(self) -> None:
        """Open the files that `survey` found. Blocks."""
        for queue in self:
            queue.open()

    def take_filling(self) -> list[ConsumeQueue]:
        """Return the queues that will soon need another file, each once, and forget them."""
        queues, self.filling = self.filling, []
        return [queue for queue in dict.fromkeys(queues) if queue.nearly_full]

    def note_flushed(self, queues: Iterable[ConsumeQueue]) -> None:
        """Remove queues without unflushed entries from `touched`; add nearly full ones to `filling`."""
        for queue in queues:
            if queue.flushed >= queue.end:
                queue.ready_until = 0  # so that `set_ready` precedes the next entry and adds it to `touched`
                self.touched.pop(queue, None)
            if queue.nearly_full:
                self.filling.append(queue)

    @property
    def max_physical_offset(self) -> int:
        """End of the last record with an entry in any queue; 0 if there is none."""
        return max((queue.max_physical_offset for queue in self), default=0)

    def crc(self) -> int:
        """Return a checksum of the names and next offsets of all queues."""
        ends = sorted(f"{queue.topic}/{queue.queue_id}/{queue.next_offset}" for queue in self)
        return crc32("\n".join(ends).encode())

    def take(self, queues: Iterable[ConsumeQueue]) -> Callable[[], None]:
        """Detach queues and return a function that removes their files and folders; that function blocks."""
        destroyers, topics = [], set()
        for queue in queues:
            of_topic = self.by_topic.get(queue.topic, {})
            of_topic.pop(queue.queue_id, None)
            if not of_topic:
                self.by_topic.pop(queue.topic, None)
                topics.add(queue.topic)
            destroyers.append(queue.take_all())

        def destroy() -> None:
            for one in destroyers:
                one()
            for topic in topics:
                self._disk.remove_empty_folder(self._folder / topic)
                if self._extensions is not None:
                    self._disk.remove_empty_folder(self._extensions[0] / topic)

        return destroy

    def destroy(self, queues: Iterable[ConsumeQueue]) -> None:
        """Detach queues and remove their files. Blocks."""
        self.take(queues)()

    def close(self) -> None:
        for queue in self:
            queue.close()
        self.by_topic = {}
