"""Few bytes of a file without a mapping of it.

A mapping costs more than a read, and each fault in the unused rest of a preallocated file fills 128 KiB of
the page cache with zeros. Holes are known to be zeros, so they are not read here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rmqcli.store.read.files import NamedFile, extents, opened

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
