"""Preallocated, memory-mapped files of a rolling queue, named by their start offset (Java `MappedFile`).

* Files are created at full size, sparse. The name is the start offset, 20 digits.
* What is written next has its blocks on the disk before (`Segment.reserve`): a page that the disk has no room
  for would end the process.
* Slices of `view` may outlive the segment: removing it unlinks the file at once, the memory is freed with the
  last slice.
* Files of consume queues are mapped while they are used: see mappings.py.
"""

from __future__ import annotations

import contextlib
import errno
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

from broker.disk import PAGE, Disk, MappedFile

MOST_MAPPED = 32 * 1024


class Mappings:
    """At most `most` mapped files after `trim`: `Segment.used`, which is set whenever the residency of a file
    is asked for, decides by the clock algorithm.

    A running store trims once a second, and so may hold more for a while. Until `is_running`, while one
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
"""Bytes that are reserved ahead at most; less in a file that does not hold as much."""
CHUNK = 1 << 20
"""Bytes that are looked at together."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Segment:
    """A mapped file; `view[position]` is the byte at queue offset `start + position`.

    Of a file that was found, until `forget_found`: `found_size` is the length that it had, behind which no
    record can be whole; from `data_end` on it was a hole. The zeros of a hole may belong to a record, and a
    page of it is not touched without need: a full disk has none for it. Both are `size` otherwise.

    `fresh` says that the folder does not durably know the file yet, `is_cleared` that bytes of it were zeroed
    and not synced since. What is before `reserved` has its blocks; `step` bytes are reserved ahead at least.
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
        """Map the file, create or extends it with zeros to `size`. OSError if the disk refuses.

        With `mappings`, one that is known to have its `length` is mapped when it is used, and not for ever.
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
        self.is_cleared = False
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
        """False for a file that is not mapped at the moment: it is on its first use, which blocks."""
        return self._file is not None

    @property
    def view(self) -> memoryview:
        """The whole file. Blocks if it is not mapped."""
        return (self._file or self._map()).view

    def part(self, position: int, length: int) -> memoryview:
        """Bytes of the file, read from the disk (blocks) if it is not mapped."""
        if self._file is not None:
            return self._file.view[position : position + length]
        return memoryview(self._disk.read_part(self.path, position, length))

    def read(self, position: int, length: int) -> bytes:
        """Bytes of the file, without a touch of its mapping. Blocks."""
        return self._disk.read_part(self.path, position, length)

    def forget_found(self) -> None:
        """Note that the file is written from now on."""
        self.found_size = self.data_end = self.size

    def data_ranges(self, position: int) -> Iterator[tuple[int, int]]:
        """Start and ends of the ranges behind `position` that may hold other bytes than zeros. Blocks."""
        return self._disk.data_ranges(self.path, position, self.size)

    def is_resident(self, position: int, length: int) -> bool:
        """Return True if reading these bytes does not wait for the disk. Does not block."""
        self.used = True
        return self._file is not None and self._file.is_resident(position, length)

    def load_pages(self, position: int, length: int) -> None:
        """Map the file and read pages. Blocks; does nothing for a file that was removed."""
        with contextlib.suppress(FileNotFoundError):
            (self._file or self._map()).load_pages(position, length)

    def release_pages(self, position: int, length: int) -> None:
        """Drop whole pages, dirty ones too, from the memory of this process; the page cache keeps them."""
        if self._file is not None:
            self._file.release_pages(position, length)

    def unmap(self) -> None:
        """Free the mapping until the next use; what was written through it stays."""
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
        """Zero everything from `position` on, so that no old bytes come to life behind new ones.

        Keeps the modification time, on which search by time and retention depend. Touches nothing if all is
        zero.
        """
        if position >= self.size or not (self.is_mapped or self.has_data(position)):
            return
        if (self._file or self._map()).clear_from(position):
            self.is_cleared = True
            self.reserved = min(self.reserved, position // PAGE * PAGE)

    def has_data(self, position: int) -> bool:
        """Return True if any byte from `position` on is not zero. Blocks."""
        return any(
            bytes(self.part(at, min(CHUNK, stop - at))).strip(b"\0")
            for start, stop in self.data_ranges(position)
            for at in range(start, stop, CHUNK)
        )

    def note_written(self, end: int) -> None:
        """Note that everything before `end` was written once, and so has its blocks."""
        self.reserved = max(self.reserved, end // PAGE * PAGE)

    def reserve(self, end: int) -> None:
        """Have the disk keep room for everything before `end`, and for as much again if it can.

        OSError if it is full. Blocks; safe in a worker thread.
        """
        begin, end = self.reserved, min(end, self.size)
        if begin >= end:
            return
        for more in (max(min(end, MOST_RESERVED), self.step), 0):
            wanted = min(-(-(end + more) // PAGE) * PAGE, self.size)
            try:
                (self._file or self._map()).reserve(begin, wanted - begin)
            except FileNotFoundError:
                return  # it was removed meanwhile
            except OSError as error:
                if not more or error.errno not in DISK_FULL:
                    raise
            else:
                self.reserved = max(self.reserved, wanted)
                return

    def populate_pages(self, position: int, length: int) -> bool:
        """Allocate and maps pages that will be written soon; False where the kernel cannot. Blocks.

        ValueError if the file was closed.
        """
        if self._file is None:
            raise ValueError(f"{self.path} is closed")
        return self._file.populate_pages(position, length)

    def read_ahead(self, is_on: bool) -> None:
        """As `MappedFile.read_ahead`, until the mapping is freed; nothing for a file that is not mapped."""
        with contextlib.suppress(ValueError):  # it was closed meanwhile
            if self._file is not None:
                self._file.read_ahead(is_on)

    def rewrite(self, start: int, end: int) -> None:
        """Have the next sync write the bytes [start, end) of the sequence that are in this file. Blocks."""
        begin, stop = max(start - self.start, 0), min(end - self.start, self.size)
        (self._file or self._map()).rewrite(begin, stop - begin)

    def close(self) -> None:
        """Unmap, now or when the last slice that was given out is gone."""
        if self._mappings is not None:
            self._mappings.discard(self)
        self.unmap()

    def destroy(self) -> None:
        """Remove the file and close. Blocks."""
        self._disk.unlink(self.path)
        self.close()


Place = tuple[Segment, int]
"""A file and a position in it."""


Reservation = tuple[Segment, int]
"""A file and the position up to which its blocks are wanted."""
