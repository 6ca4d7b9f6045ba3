"""Writer of batch consume queue files, preallocated as a 5.x broker creates them (Java
`BatchConsumeQueue`)."""

from __future__ import annotations

import shutil
from pathlib import Path

from codec.errors import CorruptionError
from codec.store.batch_queue import UNIT
from codec.store.dispatch import DispatchedEntry
from codec.store.file_names import file_name, is_queue_folder

_BUFFERED = 1 << 14


class _BatchQueue:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last = -1
        self.written = 0
        self.buffer = bytearray()


class BatchQueuesWriter:
    def __init__(self, folder: Path, file_size: int) -> None:
        self._folder = folder
        self._file_size = file_size // UNIT.size * UNIT.size
        self.queues: dict[tuple[str, int], _BatchQueue] = {}

    def put(self, entry: DispatchedEntry, count: int, store_timestamp: int) -> None:
        """Add the unit of a record with `count` messages. CorruptionError if the topic is no folder."""
        key = entry.topic, entry.queue_id
        if key not in self.queues:
            if not is_queue_folder(*key):
                raise CorruptionError(f"there is no topic {entry.topic!r} with a queue {entry.queue_id}")
            self.queues[key] = _BatchQueue(self._folder / entry.topic / str(entry.queue_id))
        queue = self.queues[key]
        if entry.queue_offset <= queue.last:  # the topic was deleted and created again
            shutil.rmtree(queue.folder, ignore_errors=True)
            queue.buffer.clear()
            queue.written = 0
        queue.last = entry.queue_offset + count - 1
        place = entry.commit_log_offset, entry.size, entry.tags_code
        queue.buffer += UNIT.pack(*place, store_timestamp, entry.queue_offset, count, -1, 0)
        if len(queue.buffer) >= _BUFFERED:
            self._flush(queue)

    def finish(self) -> None:
        for queue in self.queues.values():
            self._flush(queue)

    def _flush(self, queue: _BatchQueue) -> None:
        while queue.buffer:
            inside = queue.written % self._file_size
            piece = queue.buffer[: self._file_size - inside]
            path = queue.folder / file_name(queue.written - inside)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("r+b" if inside else "xb") as file:
                if not inside:
                    file.truncate(self._file_size)
                file.seek(inside)
                file.write(piece)
            queue.written += len(piece)
            del queue.buffer[: len(piece)]
