"""Files named by the offset of their first byte, opened read-only and memory-mapped."""

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
    """`base` is the offset of the first byte; None when the name does not tell (a renamed copy). `size`: no more is looked at."""

    path: Path
    base: int | None
    size: int


def offset_files(path: Path) -> list[NamedFile]:
    """The file, or the files of a folder in the order of their offsets; FileNotFoundError when there are none."""
    if path.is_file():
        base = int(path.name) if is_file_name(path.name) else None
        return [NamedFile(path, base, path.stat().st_size)]
    found = sorted(item for item in path.iterdir() if is_file_name(item.name) and item.is_file())
    if not found:
        raise FileNotFoundError(2, "no file named by an offset (20 digits) is in this folder", str(path))
    return [NamedFile(item, int(item.name), item.stat().st_size) for item in found]


class DamagedFile(CorruptionError):
    """Damage at byte `position` of the file `path`; the text says both."""

    def __init__(self, path: Path, damage: CorruptionError) -> None:
        place = "" if damage.position is None else f"byte {damage.position}: "
        super().__init__(f"{path}: {place}{damage}", damage.position)
        self.path = path


@contextmanager
def mapped(file: NamedFile) -> Iterator[memoryview]:
    """The first `size` bytes of a file as a view that must not outlive the block. An empty file is an empty view."""
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
        except BufferError:  # the frames of an error on its way still hold some; the mapping goes with them
            del view, pages


def data_extents(file: NamedFile, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The parts of [start, stop) that may hold something else than zeros: a preallocated file is mostly holes, and looking at
    each page of them takes seconds a gigabyte. All of it where the file system does not tell.
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
    """Bytes of [start, stop) that are no holes."""
    bounds = data_extents(file, start, file.size if stop is None else stop)
    return sum(end - begin for begin, end in bounds)


@contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """An error of files in `folder` that are being written, which does not say where, says so."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(folder)) from error


@contextmanager
def naming_damage(file: NamedFile) -> Iterator[None]:
    """A CorruptionError out of the block becomes a DamagedFile."""
    try:
        yield
    except CorruptionError as error:
        raise DamagedFile(file.path, error) from None
