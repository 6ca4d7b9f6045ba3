"""A list of preallocated files that is loaded, extended in worker threads, cut and removed (Java
`MappedFileQueue`).

Lists of segments are replaced, never changed in place, so that worker threads may read them.

Loading ignores other names, removes an empty last file (created, never sized), and extends a short last file
with zeros, whose content recovery then judges. Any other length is refused with an error that names the file,
the size and the setting. `survey` makes these checks first: nothing is changed until the whole store may be
opened.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from rmqcli.broker.disk import PAGE, Disk
from rmqcli.broker.errors import StoreDamaged, StoreSizeMismatch
from rmqcli.broker.store.segment import Mappings, Place, Reservation, Segment
from rmqcli.codec.store.file_names import file_name, is_file_name

ADOPTED = "%s=%d is taken from the files of the store"
_log = logging.getLogger(__name__)


def _files(disk: Disk, folder: Path) -> list[Path]:
    return [path for path in disk.list(folder) if is_file_name(path.name)]


def adopted_size(disk: Disk, folder: Path) -> int | None:
    """Return the segment size according to the first two names, or the length of the only file; None for an
    empty folder."""
    files = _files(disk, folder)
    if len(files) > 1:
        return int(files[1].name) - int(files[0].name)
    return (_length(disk, files[0]) or None) if files else None


def _length(disk: Disk, path: Path) -> int:
    state = disk.state(path)
    return 0 if state is None else state.size


class SegmentList:
    """Segments in order of their start, each of `size` bytes; they reserve at least `step` bytes ahead.
    `read_around` is that of `Disk.open_mapped`; without `read_ahead` it is off for all files, written or
    not."""

    __slots__ = (
        "_found",
        "_gone",
        "_has_removed",
        "_read_ahead",
        "_read_around",
        "_spare",
        "disk",
        "folder",
        "mappings",
        "refused",
        "segments",
        "setting",
        "size",
        "step",
    )

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        size: int,
        setting: str,
        step: int = 0,
        mappings: Mappings | None = None,
        *,
        read_around: bool = False,
        read_ahead: bool = True,
    ) -> None:
        self.disk = disk
        self._read_around = read_around
        self._read_ahead = read_ahead
        self.mappings = mappings
        self.folder = folder
        self.size = size
        self.setting = setting
        self.step = step
        self.segments: list[Segment] = []
        self.refused: OSError | None = None
        """The reason why the last requested file could not be built in advance."""
        self._found: list[tuple[Path, int]] = []
        self._spare: Segment | None = None
        self._gone = self._has_removed = False

    def survey(self, *, derived: bool = False) -> bool:
        """Find the files of the folder without changing anything. Blocks.

        Raises StoreDamaged if a file is missing between two others, or is cut off before another, and
        StoreSizeMismatch for any other length. For `derived` data, returns False instead: all of it must be
        rebuilt.
        """
        states = [(path, self.disk.state(path)) for path in _files(self.disk, self.folder)]
        self._found = [
            (path, state.size) for path, state in states if state is not None and not state.is_folder
        ]
        written = self.found_files
        lengths = [length for _, length in written]
        starts = [int(path.name) for path, _ in written]
        gaps = [(one, other) for one, other in pairwise(starts) if other != one + self.size]
        if derived:
            is_long = any(length > self.size for length in lengths)
            return not (gaps or is_long or any(length < self.size for length in lengths[:-1]))
        for path, length in written[:-1]:
            if length < self.size and self.size in lengths:
                raise StoreDamaged(
                    f"{path} is cut off: it has {length} of {self.size} bytes. Restore it, or copy what "
                    f"can be read with 'rmq inspect salvage'"
                )
            self._check_length(path, length, last=False)
        if written:
            self._check_length(*written[-1], last=True)
        for previous, start in gaps:
            raise StoreDamaged(
                f"{self.folder}: {file_name(previous + self.size)} is missing before {file_name(start)}; "
                f"restore it, or move the files before it away (their content is lost then)"
            )
        return True

    @property
    def found_files(self) -> list[tuple[Path, int]]:
        """The files that `survey` found and their lengths, except empty ones at the end."""
        count = len(self._found)
        while count and not self._found[count - 1][1]:
            count -= 1
        return self._found[:count]

    def open(self) -> None:
        """Open the files that `survey` found, mapping them unless there are `mappings`; remove empty files at
        the end. Blocks."""
        written = self.found_files
        for path, _ in self._found[len(written) :]:
            self.disk.unlink(path)
        self._found = []
        if written and written[-1][1] < self.size:
            path, length = written[-1]
            text = "%s is %d bytes short of %d; recovery decides what of it is valid"
            _log.warning(text, path, self.size - length, self.size)
        self.segments = [
            Segment(
                self.disk,
                path,
                int(path.name),
                self.size,
                self.step,
                self.mappings,
                length,
                read_around=self._read_around,
            )
            for path, length in written
        ]
        if not self._read_ahead:
            self.read_ahead(False)
        for segment in self.segments:
            # A process killed before it synced the folder may have left the file known to the page cache
            # only.
            segment.fresh = True
            segment.data_end = max((stop for _, stop in segment.data_ranges(0)), default=0)

    def read_ahead(self, is_on: bool) -> None:
        """Turn the kernel's read-ahead on or off for all files, future ones included. Safe to call in a
        worker thread."""
        self._read_ahead = is_on
        for segment in (*self.segments, self._spare):
            if segment is not None:
                segment.read_ahead(is_on)

    def _check_length(self, path: Path, length: int, *, last: bool) -> None:
        if length == self.size or (last and length < self.size):
            return
        raise self.mismatch(path, length)

    def mismatch(self, path: Path, length: int) -> StoreSizeMismatch:
        """Return the error for a file of another length; its text suggests a remedy."""
        return StoreSizeMismatch(
            f"{path} is {length} bytes long, but {self.setting} is {self.size}: "
            f"set {self.setting}={length}, or use another folder"
        )

    @property
    def start(self) -> int:
        """Offset of the first byte; 0 if there is no segment."""
        segments = self.segments
        return segments[0].start if segments else 0

    def find(self, offset: int) -> Segment | None:
        """Return the segment that holds the byte at `offset`."""
        segments = self.segments
        if not segments:
            return None
        index = (offset - segments[0].start) // self.size
        return segments[index] if 0 <= index < len(segments) else None

    def shared_pages(self, end: int) -> list[Place]:
        """Return the file and position at which writing continues; empty if a page begins at `end`, because
        that page is new.

        A file that is not mapped is returned in any case.
        """
        segment = self.find(end)
        if segment is None or (segment.is_mapped and (end - segment.start) % PAGE == 0):
            return []
        return [(segment, end - segment.start)]

    # --- growing

    def is_ready(self, start: int) -> bool:
        """Return True if `append(start)` needs nothing from the disk."""
        return self._spare is not None and self._spare.start == start

    def wants(self, start: int) -> bool:
        """Return True if the file that begins at `start` is the next one and is neither present nor
        prepared."""
        follows = not self.segments or self.segments[-1].end == start
        return follows and not self._gone and not self.is_ready(start)

    def append(self, start: int) -> Segment:
        """Add the segment that begins at `start`: the prepared one, or a new one, which blocks and may raise
        OSError."""
        spare, self._spare = self._spare, None
        segment = spare if spare is not None and spare.start == start else self.build(start)
        if self.mappings is not None:
            self.mappings.add(segment)
        # A new list each time: workers may be in the middle of the old one.
        self.segments = [*self.segments, segment]
        return segment

    def build(self, start: int) -> Segment:
        """Create the file without adding it. Blocks; safe to call in a worker thread.

        Name and length are made durable immediately: after a power cut, no file is missing or empty before an
        existing one. A file whose sync fails is removed, because a second sync would succeed even if it was
        not written, and so is a file for which the disk has no room. The first page of a queue's file is
        touched here, because that can take milliseconds: a file system allocates many pages at once.
        """
        self.disk.make_folder(self.folder)
        path = self.folder / file_name(start)
        segment = Segment(
            self.disk, path, start, self.size, self.step, self.mappings, read_around=self._read_around
        )
        if not self._read_ahead:
            segment.read_ahead(False)
        if self.mappings is not None:
            self.mappings.discard(segment)  # not counted, and so not unmapped, until it is used
        try:
            segment.reserve(1)
            self.disk.sync_file(segment.path)
            self.disk.sync_folder(self.folder)
            if self.mappings is not None:
                segment.populate_pages(0, 1)
        except OSError:
            segment.close()
            with contextlib.suppress(OSError):
                self.disk.unlink(segment.path)
            raise
        return segment

    def unreserved(self, begin: int, end: int) -> Reservation | None:
        """Return a file that needs more reserved blocks to write [begin, end), and the position up to which
        it needs them; None if all are reserved."""
        for segment in (*self.segments[-1:], self._spare):
            if segment is not None and segment.end > begin:
                wanted = min(end - segment.start, segment.size)
                if wanted > segment.reserved:
                    return segment, wanted
        return None

    def offer(self, segment: Segment) -> None:
        """Keep a file that was built in advance for `append`; close it if it is no longer needed. Blocks if the
        list was taken meanwhile: the file is removed then."""
        if self.wants(segment.start):
            self._spare = segment
            if not self._read_ahead:  # may have been turned off during `build`
                segment.read_ahead(False)
        elif self._gone:  # `take_all` did not know the file, and no queue would ever remove it
            segment.destroy()
        else:  # `append` created it, too
            segment.close()

    # --- shrinking

    def cut(self, end: int) -> None:
        """Remove segments that begin after `end` and zero the bytes from `end` on. Blocks.

        Removals are made durable one by one: a power cut leaves no segment after a missing one.
        """
        if self._spare is not None and self._spare.start > end:
            self._spare.destroy()
            self._spare = None
        while self.segments and self.segments[-1].start > end:
            self._remove_last()
            self.disk.sync_folder(self.folder)
            self._has_removed = False
        # The file with `end`, and the one that begins there if it is the start of a file.
        for segment in self.segments[-2:]:
            segment.clear_from(max(end - segment.start, 0))
        for segment in self.segments:
            segment.forget_found()

    def drop_from(self, start: int) -> None:
        """Remove the last segment if it begins at `start`. Blocks."""
        if self.segments and self.segments[-1].start == start:
            self._remove_last()

    def _remove_last(self) -> None:
        last, self.segments = self.segments[-1], self.segments[:-1]
        last.destroy()
        self._has_removed = True

    def sync_cuts(self) -> None:
        """Make the changes of `cut` and `drop_from` durable: bytes that a power cut restored would be after
        or between new ones. Blocks.
        """
        for segment in self.segments:
            if segment.is_cleared:
                self.disk.sync_file(segment.path)
                segment.is_cleared = False
        if self._has_removed:
            self.disk.sync_folder(self.folder)
            self._has_removed = False

    def take_first(self) -> Segment:
        """Detach and return the first segment; the caller destroys it."""
        first, self.segments = self.segments[0], self.segments[1:]
        return first

    def take_all(self) -> Callable[[], None]:
        """Detach all segments and return a function that durably removes their files, and the folder if it is
        empty; that function blocks."""
        segments = [*self.segments, *([self._spare] if self._spare is not None else [])]
        self.segments, self._spare, self._gone = [], None, True

        def destroy() -> None:
            for segment in segments:
                segment.destroy()
            self.disk.sync_folder(self.folder)
            self.disk.remove_empty_folder(self.folder)

        return destroy

    def rewrite(self, start: int, end: int) -> None:
        """Make the next sync write [start, end), including pages that a failed sync left marked clean.
        Blocks."""
        for segment in self.between(start, end):
            segment.rewrite(start, end)

    def between(self, start: int, end: int) -> list[Segment]:
        """Return the segments that hold any byte of [start, end)."""
        return [segment for segment in self.segments if segment.start < end and segment.end > start]

    def close(self) -> None:
        """Unmap all files; remove a prepared file that was not used, as Java does."""
        if self._spare is not None:
            self._spare.destroy()
            self._spare = None
        for segment in self.segments:
            segment.close()
        self.segments = []
