"""Store files named by the offset of their first byte, mapped read-only, and errors that name the file."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.store.file_names import is_file_name


class NamedFile(NamedTuple):
    """A file: `base` is the offset of its first byte, None if unknown; `size` limits what is read."""

    path: Path
    base: int | None
    size: int


def offset_files(path: Path) -> list[NamedFile]:
    """Return the file, or the files of a folder sorted by offset.

    Raises FileNotFoundError if there is none.
    """
    if path.is_file():
        base = int(path.name) if is_file_name(path.name) else None
        return [NamedFile(path, base, path.stat().st_size)]
    found = files_in(path)
    if not found:
        raise FileNotFoundError(2, "no file named by an offset (20 digits) is in this folder", str(path))
    return found


def files_in(folder: Path) -> list[NamedFile]:
    """Return the files of a folder that are named by an offset, sorted by offset."""
    with os.scandir(folder) as items:
        return named_files(folder, filter(is_offset_file, items))


def is_offset_file(item: os.DirEntry[str]) -> bool:
    return is_file_name(item.name) and item.is_file()


def named_files(folder: Path, items: Iterable[os.DirEntry[str]]) -> list[NamedFile]:
    """Return files from a listing of their folder, sorted by offset."""
    return sorted(NamedFile(folder / item.name, int(item.name), item.stat().st_size) for item in items)


class SmallFiles:
    """Reads whole files, each of them once, as does a lookup of one that is missing."""

    def __init__(self) -> None:
        self._known: dict[Path, bytes | None] = {}

    def __call__(self, path: Path) -> bytes:
        """Return the bytes of a file. Raises FileNotFoundError."""
        if path not in self._known:
            try:
                self._known[path] = path.read_bytes()
            except FileNotFoundError:
                self._known[path] = None
        data = self._known[path]
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return data


class DamagedFile(CorruptionError):
    """Damage at byte `position` of the file `path`. The message contains both."""

    def __init__(self, path: Path, damage: CorruptionError) -> None:
        place = "" if damage.position is None else f"byte {damage.position}: "
        super().__init__(f"{path}: {place}{damage}", damage.position)
        self.path = path


def mapping(file: NamedFile) -> mmap.mmap | bytes:
    """Map the first `size` bytes.

    The mapping lives as long as a view of it. Empty bytes for an empty file.
    """
    if file.size == 0:
        return b""
    with file.path.open("rb") as handle:
        # The file may have become shorter since it was listed; a mapping past the end is an error.
        there = os.fstat(handle.fileno()).st_size
        return mmap.mmap(handle.fileno(), min(file.size, there), access=mmap.ACCESS_READ)


@contextmanager
def mapped(file: NamedFile) -> Iterator[memoryview]:
    """Like `mapping`, as a view that must not outlive the block."""
    pages = mapping(file)
    view = memoryview(pages)
    try:
        yield view
    finally:
        try:
            view.release()
            if isinstance(pages, mmap.mmap):
                pages.close()
        except BufferError:  # frames of a propagating error still refer to views; the mapping ends with them
            del view, pages


Extent = tuple[int, int]
"""A part [begin, end) of a file that may contain anything but zeros."""


def data_extents(file: NamedFile, start: int, stop: int) -> Iterator[Extent]:
    """Yield the parts of [start, stop) that may contain anything but zeros.

    A preallocated file is mostly holes, and reading their pages takes seconds per gigabyte. On a file system
    without holes this yields the whole range.
    """
    with opened(file) as handle:
        yield from extents(handle, start, stop)


@contextmanager
def opened(file: NamedFile) -> Iterator[int]:
    """Open a file for reading without a file object.

    Yields the descriptor, which is closed after the block.
    """
    handle = _open(file)
    try:
        yield handle
    finally:
        os.close(handle)


def _open(file: NamedFile) -> int:
    return os.open(file.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))


def extents(handle: int, start: int, stop: int) -> Iterator[Extent]:
    """Like `data_extents`, for an open file."""
    # APFS reports pages as holes that were written through a mapping and are not on the disk yet.
    if sys.platform == "darwin" or not hasattr(os, "SEEK_DATA"):
        yield from [(start, stop)] if start < stop else []
        return
    while start < stop:
        try:
            begin = os.lseek(handle, start, os.SEEK_DATA)
            end = os.lseek(handle, begin, os.SEEK_HOLE)
        except OSError as error:
            # ENXIO: only a hole follows. With any other error, the file system does not report holes.
            if error.errno != errno.ENXIO:
                yield start, stop
            return
        if begin < stop:
            yield begin, min(end, stop)
        start = end


def data_size(file: NamedFile) -> int:
    """Return the number of bytes that are not in holes."""
    return sum(end - begin for begin, end in data_extents(file, 0, file.size))


@contextmanager
def naming_full_disk(folder: Path | str) -> Iterator[None]:
    """Add the folder to the error of a full disk if the error does not name a file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(folder)) from error


@contextmanager
def naming_damage(file: NamedFile) -> Iterator[None]:
    """Turn a CorruptionError raised in the block into a DamagedFile."""
    try:
        yield
    except CorruptionError as error:
        raise DamagedFile(file.path, error) from None


# Few bytes of a file without a mapping of it.
#
# A mapping costs more than a read, and each fault in the unused rest of a preallocated file fills 128 KiB of
# the page cache with zeros. Holes are known to be zeros, so they are not read here.

_BLOCK = 4096


class Peek:
    """The first `size` bytes of an open file as a sliceable sequence that keeps the last block it read."""

    def __init__(self, handle: int, size: int) -> None:
        self._handle, self._size = handle, size
        self._begin, self._block = 0, b""
        self._data: list[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        begin, end = part.start or 0, self._size if part.stop is None else min(part.stop, self._size)
        at = begin - self._begin
        if at < 0 or end - self._begin > len(self._block):
            if not self._may_hold_data(begin, end):
                return bytes(max(end - begin, 0))
            self._begin = begin - begin % _BLOCK
            length = min(-(-end // _BLOCK) * _BLOCK, self._size) - self._begin
            self._block = os.pread(self._handle, max(length, 0), self._begin)
            at = begin - self._begin
        return self._block[at : max(at + end - begin, 0)]

    def _may_hold_data(self, begin: int, end: int) -> bool:
        if begin < _BLOCK:
            return True
        if self._data is None:
            self._data = list(extents(self._handle, 0, self._size))
        return any(low < end and begin < high for low, high in self._data)


Sliced = bytes | memoryview | Peek
"""Bytes that are read by slicing."""


def without_last_hole(file: NamedFile, unit: int) -> bytes:
    """Read a file up to the hole at its end, rounded up to whole units of `unit` bytes if the file has them.

    A copy of a file can have a hole where a unit ends in zeros.
    """
    return read_data(file, unit)[0]


def read_data(file: NamedFile, unit: int) -> tuple[bytes, int]:
    """Like `without_last_hole`, but also return the number of bytes of the file that are not in holes."""
    # Called for each of 80,000 queues: a context manager takes as long as opening the file.
    handle = _open(file)
    try:
        found = list(extents(handle, 0, file.size))
        end = found[-1][1] if found else 0
        # A file that has become shorter ends earlier.
        data = os.pread(handle, min(-(-end // unit) * unit, file.size), 0)
        return data, sum([end - at for at, end in found])
    finally:
        os.close(handle)


@contextmanager
def peeked(file: NamedFile) -> Iterator[Peek]:
    """Open a file for a few reads. As with `mapped`, bytes beyond its present length are not seen."""
    with opened(file) as handle:
        if hasattr(os, "posix_fadvise"):
            # Readahead would fill the page cache with the zeros of preallocated files.
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        yield Peek(handle, min(file.size, os.fstat(handle).st_size))
