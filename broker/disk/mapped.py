"""Files of the operating system, mapped into memory.

A mapping keeps no file descriptor, so that the usual limit of 1,024 does not limit the number of queues.
`mmap.mmap` would keep a copy of the descriptor it gets, so an anonymous mapping is created, and the file is
then mapped over it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from rmqcli.broker.disk.interface import PAGE
from rmqcli.broker.system import give_way
from rmqcli.machine import cores

MADV_POPULATE_WRITE = 23
"""Since Linux 5.14; the module mmap does not define it."""
MAP_FIXED = 0x10
MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0
LOAD_BYTES = 1 << 20
POPULATED_AT_ONCE = 128 * 1024
"""Bytes per call: while one runs, no thread can unmap memory, which malloc does for long texts. One call for
4 MiB held up the event loop for as much as 5 ms."""
CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of a file system without fallocate. `os.posix_fallocate` would then write a byte into each block,
while other threads write through mappings."""
PUNCH_HOLE = 0x01 | 0x02
"""FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE."""
KERNEL_PAGE = mmap.PAGESIZE
"""The unit of madvise and mincore: 16 KiB on Apple's processors, up to 64 KiB on others."""
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
NO_MAPPING = "no room for a mapping: raise vm.max_map_count (sysctl), which limits them, or add memory"


class RealMappedFile:
    """A file of the operating system, mapped shared."""

    __slots__ = ("_address", "_map", "_path", "_reads_around", "_size", "found_size", "view")

    def __init__(self, path: Path, size: int, *, may_create: bool = True, read_around: bool = True) -> None:
        self._path = path
        self._reads_around = read_around
        self._size = size
        with opened(path, os.O_RDWR | (os.O_CREAT if may_create else 0)) as fd:
            self.found_size = os.fstat(fd).st_size
            if self.found_size != size:
                os.ftruncate(fd, size)
            self._map = _mapped(fd, size, path)
        self._address = 0
        self.view = memoryview(self._map)
        if not (self.found_size or read_around):
            self.read_ahead(False)

    def read_ahead(self, is_on: bool) -> None:
        """Turn read-around on or off. With it, the first access to a page loads as many around it as the
        disk's readahead: 2,048 pages, in 20 ms, if that is 8 MiB.
        """
        self._map.madvise(mmap.MADV_NORMAL if is_on else mmap.MADV_RANDOM)

    def is_resident(self, position: int, length: int) -> bool:
        first = position // KERNEL_PAGE * KERNEL_PAGE
        pages = -(-(position + length - first) // KERNEL_PAGE)
        if not self._address:
            self._address = _address(self._map, 0)
        flags = bytearray(pages)
        if _mincore()(
            self._address + first, position + length - first, (_char_array(pages)).from_buffer(flags)
        ):
            return True  # the kernel cannot tell
        # Linux sets only the lowest bit, macOS also others.
        return flags.count(1) == pages or all(flag & 1 for flag in flags)

    def release_pages(self, position: int, length: int) -> None:
        first = -(-position // KERNEL_PAGE) * KERNEL_PAGE
        last = (position + length) // KERNEL_PAGE * KERNEL_PAGE
        if last > first:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def populate_pages(self, position: int, length: int) -> bool:
        if sys.platform != "linux":
            return False
        is_alone = cores() <= 1
        if is_alone:  # with one core, the event loop waits for this call: no pages are loaded around
            self.read_ahead(False)
        first = position // KERNEL_PAGE * KERNEL_PAGE
        held = ctypes.c_char.from_buffer(self._map, first)  # a buffer export, which prevents unmapping
        address, end = ctypes.addressof(held), position + length - first
        # `mmap.madvise` would hold the interpreter lock. No thread can unmap memory during a call, so it is
        # short.
        for start in range(0, end, POPULATED_AT_ONCE):
            if _madvise()(address + start, min(POPULATED_AT_ONCE, end - start), MADV_POPULATE_WRITE):
                return False
            if is_alone:
                give_way()
        return True

    def reserve(self, position: int, length: int) -> None:
        # Read-around is turned off only now: a start reads existing files sequentially and benefits from it.
        if not self._reads_around:
            with contextlib.suppress(ValueError):  # closed in the meantime
                self.read_ahead(False)
        with contextlib.suppress(FileNotFoundError), opened(self._path, os.O_RDWR) as fd:
            while _fallocate()(fd, 0, position, length):
                error = ctypes.get_errno()
                if error in CANNOT_RESERVE:
                    return
                if error != errno.EINTR:
                    raise OSError(error, os.strerror(error), str(self._path))

    def load_pages(self, position: int, length: int) -> None:
        # Touching the mapping would hold the interpreter lock while the disk works; `preadv` releases it.
        buffer = bytearray(min(length, LOAD_BYTES))
        with contextlib.suppress(FileNotFoundError), opened(self._path, os.O_RDONLY) as fd:
            for start in range(position, position + length, LOAD_BYTES):
                os.preadv(fd, [buffer], start)

    def clear_from(self, position: int) -> bool:
        page_end = min(-(-position // PAGE) * PAGE, self._size)
        if not any(self.view[position:page_end]) and not any(data_ranges(self._path, page_end, self._size)):
            return False
        state = self._path.stat()
        with opened(self._path, os.O_RDWR) as fd:
            # A hole keeps the length. A kill between two truncations would leave a short file, whose length
            # the next start would adopt as the size of all files.
            while _fallocate()(fd, PUNCH_HOLE, position, self._size - position):
                error = ctypes.get_errno()
                if error in CANNOT_RESERVE:
                    if not _write_zeros(fd, position, self._size):
                        return False
                    break
                if error != errno.EINTR:
                    raise OSError(error, os.strerror(error), str(self._path))
        os.utime(self._path, ns=(state.st_atime_ns, state.st_mtime_ns))
        return True

    def rewrite(self, position: int, length: int) -> None:
        for page in range(position // PAGE * PAGE, position + length, PAGE):
            self.view[page] = self.view[page]  # a store marks the page dirty, even with the same value

    def close(self) -> None:
        self.view.release()
        with contextlib.suppress(BufferError):  # slices still exist: the mapping is freed with the last one
            self._map.close()


def _write_zeros(fd: int, position: int, size: int) -> bool:
    """Zero the pages of a file that contain other bytes, for a file system that cannot make holes. Return
    False if there are none.
    """
    has_written = False
    while position < size:
        end = min((position // LOAD_BYTES + 1) * LOAD_BYTES, size)
        data = os.pread(fd, end - position, position)
        if data.count(0) < len(data):
            for page in range(position // PAGE * PAGE, end, PAGE):
                start, stop = max(page, position), min(page + PAGE, end)
                part = data[start - position : stop - position]
                if part.count(0) < len(part):
                    _write_all(fd, bytes(stop - start), start)
                    has_written = True
        position = end
    return has_written


def _write_all(fd: int, data: bytes, position: int) -> None:
    while data:
        written = os.pwrite(fd, data, position)
        data, position = data[written:], position + written


def data_ranges(path: Path, position: int, size: int) -> Iterator[tuple[int, int]]:
    """See `Disk.data_ranges`."""
    with opened(path, os.O_RDONLY) as fd:
        # APFS reports pages as holes that were written through a mapping and are not on the disk yet.
        if sys.platform == "darwin":
            yield from [(position, size)] if position < size else []
            return
        end = position
        while end < size:
            try:
                start = os.lseek(fd, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return  # there is only a hole
            end = os.lseek(fd, start, os.SEEK_HOLE)
            yield start, min(end, size)


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Open a file for the block and yield its descriptor."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def _mapped(fd: int, size: int, path: Path) -> mmap.mmap:
    """Return a shared mapping of a file that does not keep a descriptor."""
    try:
        place = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        address = _address(place, 0)
        if _mmap()(address, size, READ_WRITE, mmap.MAP_SHARED | MAP_FIXED, fd, 0) != address:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    except OSError as error:
        text = NO_MAPPING if error.errno == errno.ENOMEM else error.strerror
        raise OSError(error.errno, text, str(path)) from error
    return place


def _address(mapped: mmap.mmap, position: int) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped, position))


@lru_cache(maxsize=1)
def _madvise() -> Any:
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


@lru_cache(maxsize=1)
def _mincore() -> Any:
    """Return mincore, called with the interpreter lock held: it returns sooner than another thread could
    run."""
    function = ctypes.PyDLL(None).mincore
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return function


@lru_cache(maxsize=256)
def _char_array(length: int) -> Any:
    return ctypes.c_char * length


@lru_cache(maxsize=1)
def _fallocate() -> Any:
    """Return Linux's fallocate. Elsewhere it fails: F_PREALLOCATE of macOS does not fill holes in a file."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if function is None:
        return _no_fallocate
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return function


def _no_fallocate(*_: int) -> int:
    ctypes.set_errno(errno.ENOSYS)
    return -1


@lru_cache(maxsize=1)
def _mmap() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_int64)
    return function
