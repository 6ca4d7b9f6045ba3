"""Preallocated, memory-mapped files of a rolling queue, named by their start offset (Java `MappedFile`).

* Files are created at full size, sparse. The name is the start offset, 20 digits.
* Blocks on the disk are reserved before anything is written to them (`Segment.reserve`): touching a page that
  the disk has no room for would kill the process.
* Slices of `view` may outlive the segment: removing it unlinks the file immediately, but the memory is freed
  with the last slice.
* Files of consume queues are mapped only while they are used (`Mappings`).
"""

from __future__ import annotations

import contextlib
import errno
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

from rmqcli.broker.disk import PAGE, Disk, MappedFile

# The mappings of queue files: those not used recently make room for others.
#
# Linux allows 65,530 mappings of a process (`vm.max_map_count`), and each queue has files of its own. A file
# is mapped in a worker thread (`Readiness`) and unmapped by the event loop, the only user of its bytes then.

MOST_MAPPED = 32 * 1024


class Mappings:
    """A set of mapped files, which `trim` limits to `most`. The clock algorithm chooses the files to unmap by
    `Segment.used`, which is set whenever the residency of a file is queried.

    A running store trims once a second, and so may hold more files in between. Until `is_running`, while one
    thread loads the store, each new mapping makes room for itself.
    """

    most = MOST_MAPPED

    def __init__(self) -> None:
        self.is_running = False
        self._files: OrderedDict[Segment, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def add(self, file: Segment) -> None:
        if not self.is_running and len(self._files) >= self.most:
            self.trim(1)
        file.used = False
        self._files[file] = None

    def discard(self, file: Segment) -> None:
        self._files.pop(file, None)

    def trim(self, count: int) -> list[Segment]:
        """Unmap up to `count` of the files beyond the limit, and return them."""
        unmapped: list[Segment] = []
        while len(unmapped) < count and len(self._files) > self.most - (not self.is_running):
            file, _ = self._files.popitem(last=False)
            if file.used:
                file.used = False
                self._files[file] = None
            else:
                file.unmap()
                unmapped.append(file)
        return unmapped


MOST_RESERVED = 4 << 20
"""Maximum number of bytes that are reserved in advance; in a file that holds less data, only as many as
that."""
CHUNK = 1 << 20
"""Bytes that are compared with zero at once."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Segment:
    """A mapped file; `view[position]` is the byte at queue offset `start + position`.

    For a file that existed, until `forget_found`: `found_size` is its original length, and no record beyond
    it can be whole; from `data_end` on the file was a hole. The zeros of a hole may belong to a record, but
    its pages are not touched unnecessarily, because a full disk has no blocks for them. Otherwise both are
    `size`.

    `fresh` is True while the file's name is not durable in its folder, `is_cleared` if bytes were zeroed and
    not synced since. Blocks before `reserved` are reserved; at least `step` bytes are reserved in advance.
    """

    __slots__ = (
        "_disk",
        "_file",
        "_mappings",
        "_read_around",
        "data_end",
        "found_size",
        "fresh",
        "is_cleared",
        "is_removed",
        "on_unmapped",
        "path",
        "reserved",
        "size",
        "start",
        "step",
        "used",
    )

    def __init__(
        self,
        disk: Disk,
        path: Path,
        start: int,
        size: int,
        step: int = 0,
        mappings: Mappings | None = None,
        length: int | None = None,
        *,
        read_around: bool = True,
    ) -> None:
        """Map the file; create it or extend it with zeros to `size`. Raises OSError if the disk refuses.

        With `mappings`, a file whose known `length` is `size` is mapped on use and may be unmapped later.
        `read_around` is that of `Disk.open_mapped`.
        """
        self._disk = disk
        self._mappings = mappings
        self._read_around = read_around
        self._file: MappedFile | None = None
        self.on_unmapped: Callable[[Segment], None] | None = None
        self.path = path
        self.start = start
        self.size = size
        self.used = False
        is_whole = mappings is not None and length == size
        found = size if is_whole else self._map(may_create=True).found_size
        self.fresh = found == 0
        self.found_size = found or size
        self.data_end = size
        self.is_cleared = self.is_removed = False
        self.reserved = 0
        self.step = step

    def _map(self, *, may_create: bool = False) -> MappedFile:
        self._file = file = self._disk.open_mapped(
            self.path, self.size, may_create=may_create, read_around=self._read_around
        )
        if self._mappings is not None:
            self._mappings.add(self)
        return file

    @property
    def is_mapped(self) -> bool:
        """False for a file that is not mapped at the moment; its next use maps it, which blocks."""
        return self._file is not None

    @property
    def view(self) -> memoryview:
        """A view of the whole file. Blocks if it is not mapped."""
        return (self._file or self._map()).view

    def part(self, position: int, length: int) -> memoryview:
        """Return bytes of the file: a view, or if it is not mapped, a copy read from the disk (blocks)."""
        if self._file is not None:
            return self._file.view[position : position + length]
        return memoryview(self._disk.read_part(self.path, position, length))

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of the file without touching its mapping. Blocks."""
        return self._disk.read_part(self.path, position, length)

    def forget_found(self) -> None:
        """Record that the file is being written from now on."""
        self.found_size = self.data_end = self.size

    def data_ranges(self, position: int) -> Iterator[tuple[int, int]]:
        """Yield start and end of the ranges from `position` on that may hold bytes other than zero.
        Blocks."""
        return self._disk.data_ranges(self.path, position, self.size)

    def is_resident(self, position: int, length: int) -> bool:
        """Return True if reading these bytes does not wait for the disk. Does not block."""
        self.used = True
        # A removed file cannot be loaded: a reader that kept a slice of `view` would wait for ever.
        return self.is_removed or (self._file is not None and self._file.is_resident(position, length))

    def load_pages(self, position: int, length: int) -> None:
        """Map the file and read pages into memory. Blocks; does nothing if the file was removed."""
        with contextlib.suppress(FileNotFoundError):
            (self._file or self._map()).load_pages(position, length)

    def release_pages(self, position: int, length: int) -> None:
        """Release whole pages, dirty ones included, from the memory of this process; the page cache keeps
        them."""
        if self._file is not None:
            self._file.release_pages(position, length)

    def unmap(self) -> None:
        """Unmap the file until its next use; data written through the mapping stays."""
        file, self._file = self._file, None
        if file is not None:
            if self.on_unmapped is not None:
                self.on_unmapped(self)
            file.close()

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def modified_ms(self) -> int:
        """Modification time in ms; 0 if the file is gone. Blocks."""
        state = self._disk.state(self.path)
        return 0 if state is None else state.modified_ms

    def clear_from(self, position: int) -> None:
        """Zero everything from `position` on, so that old bytes cannot reappear after new ones.

        Keeps the modification time, on which search by time and retention depend. Changes nothing if all
        bytes are zero.
        """
        if position >= self.size or not (self.is_mapped or self.has_data(position)):
            return
        if (self._file or self._map()).clear_from(position):
            self.is_cleared = True
            # Clearing punches holes, which have no blocks.
            self.reserved = min(self.reserved, position // PAGE * PAGE)

    def has_data(self, position: int) -> bool:
        """Return True if any byte from `position` on is not zero. Blocks."""
        return any(
            bytes(self.part(at, min(CHUNK, stop - at))).strip(b"\0")
            for start, stop in self.data_ranges(position)
            for at in range(start, stop, CHUNK)
        )

    def note_written(self, end: int) -> None:
        """Note that everything before `end` was written, and so has its blocks."""
        self.reserved = max(self.reserved, end // PAGE * PAGE)

    def reserve(self, end: int) -> None:
        """Reserve blocks for everything before `end`, and for as much again if the disk has room.

        Raises OSError if the disk is full. Blocks; safe to call in a worker thread.
        """
        begin, end = self.reserved, min(end, self.size)
        if begin >= end:
            return
        # The second attempt, on a full disk, requests no more than necessary.
        for more in (max(min(end, MOST_RESERVED), self.step), 0):
            wanted = min(-(-(end + more) // PAGE) * PAGE, self.size)
            try:
                (self._file or self._map()).reserve(begin, wanted - begin)
            except FileNotFoundError:
                return  # removed in the meantime
            except OSError as error:
                if not more or error.errno not in DISK_FULL:
                    raise
            else:
                # A worker and the event loop may both reserve: neither takes back what the other has.
                self.reserved = max(self.reserved, wanted)
                return

    def populate_pages(self, position: int, length: int) -> bool:
        """Allocate and map pages that will be written soon. Return False if the kernel cannot. Blocks.

        Raises ValueError if the file was closed.
        """
        if self._file is None:
            raise ValueError(f"{self.path} is closed")
        return self._file.populate_pages(position, length)

    def read_ahead(self, is_on: bool) -> None:
        """Like `MappedFile.read_ahead`, until the file is unmapped; does nothing if it is not mapped."""
        with contextlib.suppress(ValueError):  # closed in the meantime
            if self._file is not None:
                self._file.read_ahead(is_on)

    def rewrite(self, start: int, end: int) -> None:
        """Make the next sync write the bytes of this file that lie in [start, end) of the sequence.
        Blocks."""
        begin, stop = max(start - self.start, 0), min(end - self.start, self.size)
        (self._file or self._map()).rewrite(begin, stop - begin)

    def close(self) -> None:
        """Unmap the file; its memory is freed once no slice of `view` is left."""
        if self._mappings is not None:
            self._mappings.discard(self)
        self.unmap()

    def destroy(self) -> None:
        """Remove the file and close it. Blocks."""
        self._disk.unlink(self.path)
        self.is_removed = True
        self.close()


Place = tuple[Segment, int]
"""A file and a position in it."""


Reservation = tuple[Segment, int]
"""A file and the position up to which its blocks should be reserved."""
