"""Writer of consume-queue files: preallocated, of one size, as a broker creates them (Java `ConsumeQueue`).

Entries are buffered per queue, so that any number of queues needs little memory and no open files. Missing
offsets become fillers.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.records.dispatch import DispatchedEntry
from rmqcli.codec.store.consume_queue import ENTRY, FILE_ENTRIES, FILLER, UNIT
from rmqcli.codec.store.file_names import file_name, is_queue_folder

MAX_GAP = 1 << 20
"""The maximum number of consecutive queue offsets that may be missing.

A larger gap means that the number is damaged.
"""
MAX_OFFSET = (1 << 56) - 1
_BUFFERED = 1 << 14
_ALL_BUFFERED = 1 << 26
"""The bytes of added entries after which all queues are written: a limit for all buffers together."""


class QueueWriter:
    """Writes one queue from offset `first` up to `next_offset`; `missing` counts the fillers in between."""

    def __init__(self, folder: Path, file_size: int, *, may_go_back: bool = False) -> None:
        self.first = self.next_offset = self.missing = 0
        self._folder = folder
        self._file_size = file_size
        self._buffer = bytearray()
        self._begin = 0
        self._has_restarted = False
        self._may_go_back = may_go_back

    @property
    def _empty(self) -> bool:
        return self.next_offset == 0

    @property
    def _is_only_restarted(self) -> bool:
        return self._has_restarted and self.next_offset == 1 and not self._may_go_back

    def put(self, entry: DispatchedEntry) -> None:
        """Add the next entry. Raises CorruptionError if its offset is impossible.

        A queue that begins again must do so at 0 and continue from there.
        """
        gap = entry.queue_offset - self.next_offset
        if self._empty:
            self._start(entry.queue_offset)
        elif gap < 0 and (entry.queue_offset == 0 or self._may_go_back):
            self._restart(entry.queue_offset)
        # A damaged queue offset must not look like a queue that begins again, which would remove the entries
        # before it: only 0 followed by 1 does.
        elif gap < 0 or gap > MAX_GAP or (gap and self._is_only_restarted):
            raise CorruptionError(
                f"{entry.topic} queue {entry.queue_id}: "
                f"offset {entry.queue_offset} follows {self.next_offset - 1}"
            )
        elif gap:
            self.missing += gap
            # As in a broker, each entry is at the position of its queue offset, regardless of missing entries
            # before it.
            self._buffer += FILLER * gap
        self._buffer += ENTRY.pack(entry.commit_log_offset, entry.size, entry.tags_code)
        self.next_offset = entry.queue_offset + 1
        if len(self._buffer) >= _BUFFERED:
            self.flush()

    def put_run(self, topic: str, queue_id: int, first: int, entries: bytes) -> None:
        """Add entries of consecutive queue offsets. Raises CorruptionError like `put`."""
        # Only the first entry can have an impossible offset; the others follow it.
        if first != self.next_offset or self._is_only_restarted:
            self.put(DispatchedEntry(topic, queue_id, first, *ENTRY.unpack_from(entries)))
            first, entries = first + 1, entries[ENTRY.size :]
        self._buffer += entries
        self.next_offset = first + len(entries) // ENTRY.size
        if len(self._buffer) >= _BUFFERED:
            self.flush()

    def _start(self, offset: int) -> None:
        """Start a queue. If it does not begin at 0, its first file is filled up to its first entry."""
        if not 0 <= offset <= MAX_OFFSET:
            raise CorruptionError(f"a queue offset of {offset}")
        at = offset * ENTRY.size
        self._begin = at - at % self._file_size
        self._buffer += FILLER * ((at - self._begin) // ENTRY.size)
        self.first = offset

    def _restart(self, offset: int) -> None:
        """Start the queue again at an offset that it already had: the topic was deleted and created again."""
        self._has_restarted = True
        self._buffer.clear()
        shutil.rmtree(self._folder, ignore_errors=True)
        self.missing = 0
        self._start(offset)

    def flush(self) -> None:
        while self._buffer:
            inside = self._begin % self._file_size
            piece = bytes(self._buffer[: self._file_size - inside])
            self._write(self._begin - inside, inside, piece)
            del self._buffer[: len(piece)]
            self._begin += len(piece)

    def _write(self, base: int, position: int, piece: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._folder / file_name(base), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # The first write to a file, which creates it, is always at position 0.
            if position == 0:
                os.ftruncate(handle, self._file_size)
            os.pwrite(handle, piece, position)
        finally:
            os.close(handle)


class QueuesWriter:
    """Writes all queues.

    With `may_go_back`, used for a salvaged log, a queue may begin again at any offset.
    """

    def __init__(
        self, folder: Path, file_size: int = FILE_ENTRIES * ENTRY.size, *, may_go_back: bool = False
    ) -> None:
        self._may_go_back = may_go_back
        self._folder = folder
        self._file_size = file_size // ENTRY.size * ENTRY.size
        self._added = 0
        self.queues: dict[tuple[str, int], QueueWriter] = {}

    def put(self, entry: DispatchedEntry) -> None:
        """Add an entry.

        Raises CorruptionError if the topic cannot name a folder, or if the offset is impossible.
        """
        self._queue(entry.topic, entry.queue_id).put(entry)
        self._add(ENTRY.size)

    def put_run(self, topic: str, queue_id: int, first: int, entries: bytes) -> None:
        """Add the entries of a queue from an offset on. Raises CorruptionError like `put`."""
        self._queue(topic, queue_id).put_run(topic, queue_id, first, entries)
        self._add(len(entries))

    def _add(self, size: int) -> None:
        self._added += size
        if self._added >= _ALL_BUFFERED:
            # With many queues, the buffers of all are large before any of them is full.
            self.finish()
            self._added = 0

    def _queue(self, topic: str, queue_id: int) -> QueueWriter:
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            if not is_queue_folder(topic, queue_id):
                raise CorruptionError(
                    f"there is no topic {topic!r} with a queue {queue_id}; salvage the store first"
                )
            folder = self._folder / topic / str(queue_id)
            queue = self.queues[topic, queue_id] = QueueWriter(
                folder, self._file_size, may_go_back=self._may_go_back
            )
        return queue

    def finish(self) -> None:
        for queue in self.queues.values():
            queue.flush()


class _BatchQueue:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last = -1
        self.written = 0
        self.buffer = bytearray()


class BatchQueuesWriter:
    """Writes batch consume queues, preallocated as a 5.x broker creates them (Java `BatchConsumeQueue`)."""

    def __init__(self, folder: Path, file_size: int) -> None:
        self._folder = folder
        self._file_size = file_size // UNIT.size * UNIT.size
        self.queues: dict[tuple[str, int], _BatchQueue] = {}

    def put(self, entry: DispatchedEntry, count: int, store_timestamp: int) -> None:
        """Add the unit of a record with `count` messages.

        Raises CorruptionError if the topic cannot name a folder.
        """
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
