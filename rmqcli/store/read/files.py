"""Store files named by the offset of their first byte, mapped read-only, and errors that name the file."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from codec.errors import CorruptionError
from codec.store.file_names import is_file_name


class NamedFile(NamedTuple):
    """A file: `base` is the offset of its first byte, None if unknown; `size` limits what is read."""

    path: Path
    base: int | None
    size: int


def offset_files(path: Path) -> list[NamedFile]:
    """Return the file, or those of a folder by their offsets. Raises FileNotFoundError without any."""
    if path.is_file():
        base = int(path.name) if is_file_name(path.name) else None
        return [NamedFile(path, base, path.stat().st_size)]
    found = files_in(path)
    if not found:
        raise FileNotFoundError(2, "no file named by an offset (20 digits) is in this folder", str(path))
    return found


def files_in(folder: Path) -> list[NamedFile]:
    """Return the files of a folder that are named by an offset, by their offsets."""
    with os.scandir(folder) as items:
        return sorted(
            NamedFile(folder / item.name, int(item.name), item.stat().st_size)
            for item in items
            if is_file_name(item.name) and item.is_file()
        )


class DamagedFile(CorruptionError):
    """Damage at byte `position` of the file `path`; the message names both."""

    def __init__(self, path: Path, damage: CorruptionError) -> None:
        place = "" if damage.position is None else f"byte {damage.position}: "
        super().__init__(f"{path}: {place}{damage}", damage.position)
        self.path = path


def mapping(file: NamedFile) -> mmap.mmap | bytes:
    """Map the first `size` bytes; it ends with the last view of it. Empty for an empty file."""
    if file.size == 0:
        return b""
    with file.path.open("rb") as handle:
        there = os.fstat(handle.fileno()).st_size
        return mmap.mmap(handle.fileno(), min(file.size, there), access=mmap.ACCESS_READ)


@contextmanager
def mapped(file: NamedFile) -> Iterator[memoryview]:
    """Do what `mapping` does, as a view that must not outlive the block."""
    pages = mapping(file)
    view = memoryview(pages)
    try:
        yield view
    finally:
        try:
            view.release()
            if isinstance(pages, mmap.mmap):
                pages.close()
        except BufferError:  # frames of a propagating error still hold some; the mapping goes with them
            del view, pages


def data_extents(file: NamedFile, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of [start, stop) that may hold anything but zeros.

    A preallocated file is mostly holes, and reading their pages takes seconds for each gigabyte. On a file
    system without holes it yields the whole range.
    """
    with opened(file) as handle:
        yield from extents(handle, start, stop)


@contextmanager
def opened(file: NamedFile) -> Iterator[int]:
    """Open a file for reads that need no file object: its descriptor, closed with the block."""
    handle = os.open(file.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        yield handle
    finally:
        os.close(handle)


def extents(handle: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Do for an open file what `data_extents` does."""
    while start < stop:
        try:
            begin = os.lseek(handle, start, os.SEEK_DATA)
            end = os.lseek(handle, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                yield start, stop
            return
        if begin < stop:
            yield begin, min(end, stop)
        start = end


def data_size(file: NamedFile, start: int = 0, stop: int | None = None) -> int:
    """Return the bytes of [start, stop) that are not holes."""
    bounds = data_extents(file, start, file.size if stop is None else stop)
    return sum(end - begin for begin, end in bounds)


@contextmanager
def naming_full_disk(folder: Path | str) -> Iterator[None]:
    """Add the folder to an error of a full disk that does not name a file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(folder)) from error


@contextmanager
def naming_damage(file: NamedFile) -> Iterator[None]:
    """Turn a CorruptionError of the block into a DamagedFile."""
    try:
        yield
    except CorruptionError as error:
        raise DamagedFile(file.path, error) from None


_BLOCK = 4096


class Peek:
    """The first `size` bytes of an open file as a sequence that is sliced; it keeps the last block it read."""

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
"""Bytes that are read by slices."""


def without_last_hole(file: NamedFile, unit: int) -> bytes:
    """Read a file up to the hole that it ends with, in whole units of so many bytes if it has them.

    A copy of a file can have a hole where a unit ends in zeros.
    """
    return read_data(file, unit)[0]


def read_data(file: NamedFile, unit: int) -> tuple[bytes, int]:
    """Do what `without_last_hole` does; return also the bytes of the file that are not holes."""
    with opened(file) as handle:
        size = min(file.size, os.fstat(handle).st_size)
        found = list(extents(handle, 0, file.size))
        end = min(max((end for _, end in found), default=0), size)
        return os.pread(handle, min(-(-end // unit) * unit, size), 0), sum(end - at for at, end in found)


@contextmanager
def peeked(file: NamedFile) -> Iterator[Peek]:
    """Open a file for a few looks; as with `mapped`, no more than its present length is seen."""
    with opened(file) as handle:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        yield Peek(handle, min(file.size, os.fstat(handle).st_size))
