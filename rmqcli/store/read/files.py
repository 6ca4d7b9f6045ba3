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
    """Returns the file, or those of a folder by their offsets. Raises FileNotFoundError without any."""
    if path.is_file():
        base = int(path.name) if is_file_name(path.name) else None
        return [NamedFile(path, base, path.stat().st_size)]
    found = sorted(item for item in path.iterdir() if is_file_name(item.name) and item.is_file())
    if not found:
        raise FileNotFoundError(2, "no file named by an offset (20 digits) is in this folder", str(path))
    return [NamedFile(item, int(item.name), item.stat().st_size) for item in found]


class DamagedFile(CorruptionError):
    """Damage at byte `position` of the file `path`; the message names both."""

    def __init__(self, path: Path, damage: CorruptionError) -> None:
        place = "" if damage.position is None else f"byte {damage.position}: "
        super().__init__(f"{path}: {place}{damage}", damage.position)
        self.path = path


@contextmanager
def mapped(file: NamedFile) -> Iterator[memoryview]:
    """Maps the first `size` bytes as a view that must not outlive the block; empty for an empty file."""
    if file.size == 0:
        yield memoryview(b"")
        return
    with file.path.open("rb") as handle:
        there = os.fstat(handle.fileno()).st_size
        pages = mmap.mmap(handle.fileno(), min(file.size, there), access=mmap.ACCESS_READ)
    view = memoryview(pages)
    try:
        yield view
    finally:
        try:
            view.release()
            pages.close()
        except BufferError:  # frames of a propagating error still hold some; the mapping goes with them
            del view, pages


def data_extents(file: NamedFile, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yields the parts of [start, stop) that may hold anything but zeros.

    A preallocated file is mostly holes, and reading their pages takes seconds for each gigabyte. On a file
    system without holes it yields the whole range.
    """
    with file.path.open("rb") as handle:
        while start < stop:
            try:
                begin = os.lseek(handle.fileno(), start, os.SEEK_DATA)
                end = os.lseek(handle.fileno(), begin, os.SEEK_HOLE)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    yield start, stop
                return
            if begin < stop:
                yield begin, min(end, stop)
            start = end


def data_size(file: NamedFile, start: int = 0, stop: int | None = None) -> int:
    """Returns the bytes of [start, stop) that are not holes."""
    bounds = data_extents(file, start, file.size if stop is None else stop)
    return sum(end - begin for begin, end in bounds)


@contextmanager
def naming_full_disk(folder: Path | str) -> Iterator[None]:
    """Adds the folder to an error of a full disk that does not name a file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(folder)) from error


@contextmanager
def naming_damage(file: NamedFile) -> Iterator[None]:
    """Turns a CorruptionError of the block into a DamagedFile."""
    try:
        yield
    except CorruptionError as error:
        raise DamagedFile(file.path, error) from None
