"""One consume queue: 20-byte entries (commit log offset, record size, tags code), addressed by queue offset
(Java `ConsumeQueue`).

* A queue whose first entry is not number 0 starts with filler entries (0, 0x7FFFFFFF, 0), which are below the
  minimum offset. A salvaged store may have them anywhere.
* `put` is idempotent: a record that ends at or before `max_physical_offset` already has its entry.
* With an extension (consume_queue_ext.py) the tags code of an entry may be the address of an extension entry.
* An entry is valid if its offset is >= 0 and its size > 0; recovery keeps the entries before the first
  invalid one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rmqcli.broker.disk import Disk
from rmqcli.broker.store.batches import Hold
from rmqcli.broker.store.consume_queue_ext import QueueExtension, Require
from rmqcli.broker.store.queue_entries import (
    entries_at,
    first_entry_at,
    first_record,
    has_entries_behind,
    last_address,
    trusted_end,
    valid_end,
)
from rmqcli.broker.store.segment import Mappings, Place, Reservation, Segment
from rmqcli.broker.store.segment_list import SegmentList
from rmqcli.codec.core.derived import encode_entries
from rmqcli.codec.store.consume_queue import (
    ENTRY,
    ENTRY_SIZE,
    FILLER,
    FILLER_SIZE,
    ExtensionEntry,
    is_address,
)
from rmqcli.codec.store.file_names import RECOVERED_FILES

_pack = ENTRY.struct.pack_into
_unpack = ENTRY.struct.unpack


class QueueGap(Exception):
    """The queue does not continue with this entry: it must be rebuilt."""


class ConsumeQueue:
    """One queue. `next_offset` is its maximum offset, `min_offset` the first readable offset, `full_at` the
    first that needs another file, `ready_until` the first that may need the disk or has to wait for `hold`.

    After `survey` and `recover`, `must_rebuild` is True if files, entries or extensions are missing.
    """

    __slots__ = (
        "_limit",
        "_position",
        "_touched",
        "_view",
        "extension",
        "flushed",
        "full_at",
        "hold",
        "max_physical_offset",
        "min_offset",
        "must_rebuild",
        "next_offset",
        "queue_id",
        "ready_until",
        "segments",
        "topic",
    )

    def __init__(
        self,
        disk: Disk,
        topic: str,
        queue_id: int,
        folder: Path,
        file_size: int,
        extension: QueueExtension | None = None,
        mappings: Mappings | None = None,
        touched: dict[ConsumeQueue, None] | None = None,
    ) -> None:
        self._touched = {} if touched is None else touched
        self.topic = topic
        self.queue_id = queue_id
        size = file_size // ENTRY_SIZE * ENTRY_SIZE
        self.segments = SegmentList(disk, folder, size, "mappedFileSizeConsumeQueue", mappings=mappings)
        self._view = memoryview(b"")
        self._position = self._limit = 0
        self.next_offset = 0
        self.full_at = self.ready_until = 0
        self.min_offset = self.max_physical_offset = self.flushed = 0
        self.extension = extension
        self.must_rebuild = False
        self.hold: Hold | None = None

    @property
    def end(self) -> int:
        """Byte offset of the next entry."""
        return self.next_offset * ENTRY_SIZE

    @property
    def first_record(self) -> int:
        """Commit-log offset of the first entry in the files that is not filler; -1 if there is none."""
        return first_record(self.segments.segments)

    def append(self, physical_offset: int, size: int, tags_code: int) -> None:
        """Add the entry of the next queue offset, without checks: this is the hot path.

        Raises OSError if the caller ignored `ready_until` and the disk is full.
        """
        position = self._position
        if position >= self._limit:
            position = self._advance()
        _pack(self._view, position, physical_offset, size, tags_code)
        self._position = position + ENTRY_SIZE
        self.next_offset += 1
        self.max_physical_offset = physical_offset + size

    def append_run(self, offsets: Sequence[int], sizes: Sequence[int], codes: Sequence[int]) -> None:
        """Add the entries of the next queue offsets: commit-log offset, size and tags code of each. Raises
        OSError like `append`.
        """
        position, count = self._position, len(offsets)
        end = position + count * ENTRY_SIZE
        if end > self._limit:  # more blocks or another file are needed, which `append` gets on the way
            for entry in zip(offsets, sizes, codes, strict=True):
                self.append(*entry)
            return
        self._view[position:end] = encode_entries(offsets, sizes, codes)
        self._position = end
        self.next_offset += count
        self.max_physical_offset = offsets[-1] + sizes[-1]

    def put(
        self, queue_offset: int, physical_offset: int, size: int, tags_code: int, store_timestamp: int
    ) -> None:
        """Add the entry of a stored record, unless it exists. Raises QueueGap if it is not the next one."""
        if physical_offset + size <= self.max_physical_offset:
            return
        if queue_offset != self.next_offset:
            # An empty queue may begin at any offset: earlier records are deleted.
            if self.segments.segments:
                raise QueueGap(
                    f"{self.topic}-{self.queue_id}: entry {queue_offset} after {self.next_offset - 1}"
                )
            self.start_at(queue_offset)
        if self.extension is not None:
            tags_code = self.extension.put(tags_code, store_timestamp)
        self.append(physical_offset, size, tags_code)

    def skip_to(self, queue_offset: int) -> None:
        """Add filler entries up to a queue offset, for records that are lost or damaged. Blocks."""
        # `append` would set it to the end of a filler, and `put` would then skip records before that.
        reached = self.max_physical_offset
        while self.next_offset < queue_offset:
            self.append(0, FILLER_SIZE, 0)
        self.max_physical_offset = reached

    def start_at(self, queue_offset: int) -> None:
        """Make an empty queue begin at `queue_offset`, with filler entries before it in its first file."""
        position = queue_offset * ENTRY_SIZE % self.segments.size
        segment = self.segments.append(queue_offset * ENTRY_SIZE - position)
        segment.reserve(position)
        segment.view[:position] = FILLER * (position // ENTRY_SIZE)
        self._attach(segment, position)
        self.min_offset = queue_offset
        # The fillers are not on the disk yet: the next flush begins with them.
        self.flushed = segment.start

    def _advance(self) -> int:
        """Make room for the next entry, in the next file if the last one is full; return its position."""
        if self.next_offset >= self.full_at:
            if self.segments.segments:
                # The writer does not return to a full file, and thousands of queues have one each.
                self.segments.segments[-1].release_pages(0, self.segments.size)
            self._attach(self.segments.append(self.end), 0)
        self.segments.segments[-1].reserve(self._position + ENTRY_SIZE)
        self.set_ready()
        return self._position

    def _attach(self, segment: Segment, position: int) -> None:
        self._continue_in(segment, position)
        self.set_ready()

    def _continue_in(self, segment: Segment, position: int) -> None:
        """Make the next entry go to a position. `set_ready` must follow, because the file may be unmapped."""
        # `Mappings` may unmap even the file that is written to, which releases its view.
        segment.on_unmapped = self._lose
        self._position = position
        self.next_offset = (segment.start + position) // ENTRY_SIZE
        self.full_at = segment.end // ENTRY_SIZE
        segment.note_written(position)

    def _lose(self, segment: Segment) -> None:
        """Note that a file is unmapped."""
        if self.segments.segments and self.segments.segments[-1] is segment:
            self._view = memoryview(b"")
            self._limit = self.ready_until = 0

    def missing_file(self, entries: int) -> tuple[SegmentList, int] | None:
        """Return the list that needs another file before `entries` entries fit, and the start of that file;
        None if they fit."""
        if self.next_offset + entries > self.full_at:
            start = self.next_file_start()
            if not self.segments.is_ready(start):
                return self.segments, start
        return self.extension.missing_file(entries) if self.extension is not None else None

    def shared_pages(self) -> list[Place]:
        """Like `SegmentList.shared_pages`, for the next entry and its extension."""
        pages = self.segments.shared_pages(self.end)
        if self.extension is not None:
            pages += self.extension.segments.shared_pages(self.extension.end)
        return pages

    def unreserved(self, entries: int) -> Reservation | None:
        """Return the file and the position up to which blocks must be reserved for `entries` entries; None if
        all are reserved."""
        missing = self.segments.unreserved(self.end, self.end + entries * ENTRY_SIZE)
        return missing or (self.extension.unreserved(entries) if self.extension is not None else None)

    def set_ready(self) -> None:
        """Allow entries up to the end of the reserved blocks, which need nothing from the disk."""
        if self.full_at:
            last = self.segments.segments[-1]
            self._view = last.view
            # Not done for each entry: a flush sets `ready_until` to 0, which leads the next entry here.
            self._touched[self] = None
            self._limit = last.reserved // ENTRY_SIZE * ENTRY_SIZE
            # With 0, each entry goes through `Room`, which refuses all but the holder.
            self.ready_until = 0 if self.hold else (last.start + last.reserved) // ENTRY_SIZE

    def next_file_start(self) -> int:
        """Return the byte offset at which the next file begins."""
        segments = self.segments.segments
        return (
            segments[-1].end
            if segments
            else self.next_offset * ENTRY_SIZE // self.segments.size * self.segments.size
        )

    @property
    def nearly_full(self) -> bool:
        """True if at most a quarter of the last file is left and the next file is not prepared."""
        left = (self.full_at - self.next_offset) * ENTRY_SIZE
        return (
            bool(self.full_at)
            and left * 4 <= self.segments.size
            and not self.segments.is_ready(self.next_file_start())
        )

    def entry(self, queue_offset: int) -> tuple[int, int, int]:
        """Return commit-log offset, size and tags code of an entry. Raises IndexError if it does not
        exist."""
        segment = self.segments.find(queue_offset * ENTRY_SIZE)
        if segment is None or queue_offset >= self.next_offset:
            raise IndexError(queue_offset)
        return _unpack(segment.part(queue_offset * ENTRY_SIZE - segment.start, ENTRY_SIZE))

    def place(self, queue_offset: int, count: int) -> tuple[Segment, int, int] | None:
        """Return file, position and length of at most `count` entries, within the file of the first one; None
        if there is no such file."""
        segment = self.segments.find(queue_offset * ENTRY_SIZE)
        if segment is None:
            return None
        position = queue_offset * ENTRY_SIZE - segment.start
        left = (self.next_offset - queue_offset) * ENTRY_SIZE
        return segment, position, max(min(count * ENTRY_SIZE, segment.size - position, left), 0)

    def entries(self, queue_offset: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Yield the entries at `place(queue_offset, count)`."""
        return entries_at(self.place(queue_offset, count))

    def written_in(self, segment: Segment) -> int:
        """Return the position after the last written entry of a file."""
        return min(self.end - segment.start, segment.size)

    def extended(self, code: int, require: Require | None = None) -> ExtensionEntry | None:
        """Return the extension entry that a tags code points to; None if it is not an address, or there is no
        entry at that address.

        `require` (`Readiness.require`) is called before pages are read.
        """
        return self.extension.get(code, require) if self.extension is not None and is_address(code) else None

    def next_file_offset(self, queue_offset: int) -> int:
        """Return the queue offset of the first entry of the next file (Java `rollNextFile`)."""
        per_file = self.segments.size // ENTRY_SIZE
        return queue_offset + per_file - queue_offset % per_file

    def survey(self) -> None:
        """Find the files without changing anything. Blocks.

        A queue with a gap between its files, or with a file of another length, must be rebuilt.
        """
        self.must_rebuild = not self.segments.survey(derived=True)
        if self.extension is not None:
            self.must_rebuild |= not self.extension.segments.survey(derived=True)

    def open(self) -> None:
        """Open the files that `survey` found. Blocks."""
        self.segments.open()
        if self.extension is not None:
            self.extension.segments.open()

    def recover(self, sure_until: int) -> None:
        """Find the end of the valid entries, in the last three files; `cut` removes the bytes after it.
        Blocks.

        If there are entries of records before `sure_until` after that end, the queue must be rebuilt.
        """
        segments = self.segments.segments
        self.min_offset = self.segments.start // ENTRY_SIZE
        end, self.max_physical_offset = valid_end(segments[-RECOVERED_FILES:], self.segments.start)
        self.must_rebuild = self.must_rebuild or has_entries_behind(segments, end, sure_until)
        self.next_offset = end // ENTRY_SIZE

    def cut(self) -> None:
        """Zero the bytes after the end that `recover` found; the next entry goes there. Blocks."""
        self._end_at(self.end)

    def truncate(self, physical_end: int) -> None:
        """Remove the entries of records from `physical_end` on (Java `truncateDirtyLogicFiles`). Blocks."""
        if self.max_physical_offset > physical_end:
            self._keep(self.first_at(physical_end))

    def distrust(self, physical_start: int) -> None:
        """Remove all but the whole entries of records before `physical_start`: after a power cut, any later
        page may be lost or stale. Blocks."""
        keep = trusted_end(self.segments.segments, physical_start) // ENTRY_SIZE
        if keep < self.next_offset:
            self._keep(keep)

    def holds(self, queue_offset: int, physical_offset: int, size: int, tags_code: int) -> bool:
        """Return True if the entry exists and has these values."""
        if not self.segments.start <= queue_offset * ENTRY_SIZE < self.end:
            return False
        *place, code = self.entry(queue_offset)
        extended = self.extended(code)
        return place == [physical_offset, size] and tags_code == (extended.tags_code if extended else code)

    def mark_unsynced(self, physical_offset: int) -> None:
        """Make the next flush sync the entries of records from `physical_offset` on."""
        self.flushed = min(self.flushed, self.first_at(physical_offset) * ENTRY_SIZE)
        self._touched[self] = None
        if self.extension is not None:
            self.extension.flushed = self.extension.segments.start

    def sync_cuts(self) -> None:
        """Like `SegmentList.sync_cuts`, extension included."""
        self.segments.sync_cuts()
        if self.extension is not None:
            self.extension.segments.sync_cuts()

    def _keep(self, keep: int) -> None:
        """Remove the entries from number `keep` on."""
        self.max_physical_offset = 0
        first = self.segments.start // ENTRY_SIZE
        self._end_at(keep * ENTRY_SIZE)
        # This may remove the file in which the queue now ends, so the end is set again below.
        self.segments.drop_from(keep * ENTRY_SIZE)
        if keep > first:
            offset, size, _ = self.entry(keep - 1)
            self.max_physical_offset = offset + size if size != FILLER_SIZE else 0
        self._end_at(keep * ENTRY_SIZE)

    def _end_at(self, end: int) -> None:
        self.segments.cut(end)
        self.next_offset = end // ENTRY_SIZE
        self.flushed = end
        segment = self.segments.find(end)
        if segment is None:
            self.release_views()
        else:
            self._continue_in(segment, end - segment.start)
            # The next entry has to ask for its blocks and its page first; then comes `set_ready`.
            self._limit = self.ready_until = 0
        if self.extension is not None and not self.extension.end_behind(last_address(self)):
            self.must_rebuild = True

    def first_at(self, physical_offset: int, require: Require | None = None) -> int:
        """Return the queue offset of the first entry whose record begins at or after `physical_offset`; the
        end of the queue if there is none.

        `require` (`Readiness.require`) is called before pages are read.
        """

        return first_entry_at(self, physical_offset, require)

    def correct_min(self, physical_min: int) -> None:
        """Move the minimum to the first entry whose record still exists."""
        self.min_offset = self.first_at(max(physical_min, 0))

    def release_views(self) -> None:
        self._view = memoryview(b"")
        self._position = self._limit = self.full_at = self.ready_until = 0

    def close(self) -> None:
        self.release_views()
        self.segments.close()
        if self.extension is not None:
            self.extension.close()

    def take_all(self) -> Callable[[], None]:
        """Empty the queue and return a function that removes its files; that function blocks."""
        self.release_views()
        destroy = self.segments.take_all()
        destroy_extension = self.extension.take_all() if self.extension is not None else None

        def destroy_both() -> None:
            destroy()
            if destroy_extension is not None:
                destroy_extension()

        return destroy_both
