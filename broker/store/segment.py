"""One preallocated, memory-mapped file of a rolling queue (Java `MappedFile`).

* Files are created at full size, sparse. The name is the start offset, 20 digits.
* Slices of `view` may outlive the segment: removing it unlinks the file at once, the memory goes when the last slice does.
* Pages that were written survive the death of the process; `sync_file` makes them survive the loss of power.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from pathlib import Path

from broker.store.config import PAGE

__all__ = ["Segment"]

MADV_POPULATE_WRITE = 23
"""Not among the constants of the module mmap."""


class Segment:
    """A mapped file; `view[position]` is the byte at queue offset `start + position`.

    `found_size` is how long the file was when it was opened: a short one was cut, nothing behind can be whole.
    """

    __slots__ = ("_map", "found_size", "fresh", "path", "size", "start", "view")

    def __init__(self, path: Path, start: int, size: int) -> None:
        """Opens the file, creates or extends it with zeros to `size`. OSError if the disk refuses."""
        self.path = path
        self.start = start
        self.size = size
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            length = os.fstat(fd).st_size
            if length != size:
                os.ftruncate(fd, size)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self.fresh = length == 0
        self.found_size = length or size
        self.view = memoryview(self._map)

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def modified_ms(self) -> int:
        """Modification time in ms; 0 if the file is gone."""
        try:
            return self.path.stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return 0

    def clear_from(self, position: int) -> None:
        """Zeroes everything from `position` on, so that no old bytes come to life behind new ones.

        Keeps the modification time, on which search by time and retention depend. Touches nothing if all is zero.
        """
        if position >= self.size or not self._has_data(position):
            return
        state = self.path.stat()
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.ftruncate(fd, position)
            os.ftruncate(fd, self.size)
        finally:
            os.close(fd)
        os.utime(self.path, ns=(state.st_atime_ns, state.st_mtime_ns))

    def _has_data(self, position: int) -> bool:
        page_end = min(-(-position // PAGE) * PAGE, self.size)
        if any(self.view[position:page_end]):
            return True
        if page_end >= self.size:
            return False
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.lseek(fd, page_end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        finally:
            os.close(fd)
        return found < self.size

    def release_pages(self, position: int, length: int) -> None:
        """Takes pages out of this process's resident memory; they stay in the page cache, dirty ones included."""
        first = -(-position // PAGE) * PAGE
        last = (position + length) // PAGE * PAGE
        if last > first:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def populate_pages(self, position: int, length: int) -> bool:
        """Has pages given and mapped that will be written soon; False where the kernel cannot (Linux before 5.14).

        To be called in a worker thread: mmap.madvise would keep all other threads from running, this does not.
        """
        import ctypes

        first = position // PAGE * PAGE
        held = ctypes.c_char.from_buffer(self._map, first)  # as long as it lives nothing is unmapped
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        failed: int = madvise(ctypes.addressof(held), position + length - first, MADV_POPULATE_WRITE)
        return not failed

    def close(self) -> None:
        """Unmaps, now or when the last slice that was given out goes."""
        self.view.release()
        with contextlib.suppress(BufferError):
            self._map.close()

    def destroy(self) -> None:
        """Removes the file and closes."""
        self.path.unlink(missing_ok=True)
        self.close()
