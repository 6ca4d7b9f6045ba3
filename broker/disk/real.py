"""The disk of this machine."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from broker.disk.folders import DurableFolders
from broker.disk.interface import PAGE, FileState, MappedFile, Usage
from broker.disk.lock import hold_folder, hold_lock, is_same, unusable

MADV_POPULATE_WRITE = 23
"""Linux 5.14; not among the constants of the module mmap."""
LOAD_BYTES = 1 << 20
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RealMappedFile:
    """A file of the operating system, mapped shared."""

    __slots__ = ("_address", "_map", "_path", "_size", "found_size", "view")

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        with _opened(path, os.O_RDWR | os.O_CREAT) as fd:
            self.found_size = os.fstat(fd).st_size
            if self.found_size != size:
                os.ftruncate(fd, size)
            self._map = mmap.mmap(fd, size)
        self._address = 0
        self.view = memoryview(self._map)

    def is_resident(self, position: int, length: int) -> bool:
        first = position // PAGE * PAGE
        pages = -(-(position + length - first) // PAGE)
        if not self._address:
            self._address = _address(self._map, 0)
        flags = bytearray(pages)
        if _mincore()(
            self._address + first, position + length - first, (_char_array(pages)).from_buffer(flags)
        ):
            return True  # the kernel cannot say
        return all(flag & 1 for flag in flags)

    def release_pages(self, position: int, length: int) -> None:
        first = -(-position // PAGE) * PAGE
        last = (position + length) // PAGE * PAGE
        if last > first:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def populate_pages(self, position: int, length: int) -> bool:
        import ctypes

        first = position // PAGE * PAGE
        held = ctypes.c_char.from_buffer(self._map, first)  # nothing is unmapped while this lives
        # mmap.madvise would hold the interpreter lock meanwhile.
        failed: int = _madvise()(ctypes.addressof(held), position + length - first, MADV_POPULATE_WRITE)
        return not failed

    def load_pages(self, position: int, length: int) -> None:
        # Touching the mapping would hold the interpreter lock while the disk works; a read does not.
        buffer = bytearray(min(length, LOAD_BYTES))
        with contextlib.suppress(FileNotFoundError), _opened(self._path, os.O_RDONLY) as fd:
            for start in range(position, position + length, LOAD_BYTES):
                os.preadv(fd, [buffer], start)

    def clear_from(self, position: int) -> None:
        if position >= self._size or not self._has_data(position):
            return
        state = self._path.stat()
        with _opened(self._path, os.O_RDWR) as fd:
            os.ftruncate(fd, position)
            os.ftruncate(fd, self._size)
        os.utime(self._path, ns=(state.st_atime_ns, state.st_mtime_ns))

    def _has_data(self, position: int) -> bool:
        page_end = min(-(-position // PAGE) * PAGE, self._size)
        if any(self.view[position:page_end]):
            return True
        if page_end >= self._size:
            return False
        with _opened(self._path, os.O_RDONLY) as fd:
            try:
                return os.lseek(fd, page_end, os.SEEK_DATA) < self._size
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return False

    def close(self) -> None:
        self.view.release()
        with contextlib.suppress(BufferError):
            self._map.close()


class RealDisk(DurableFolders):
    """The operating system's files; see `Disk`."""

    def open_mapped(self, path: Path, size: int) -> MappedFile:
        return RealMappedFile(path, size)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def write(self, path: Path, content: bytes) -> None:
        with _opened(path, os.O_RDWR | os.O_CREAT) as fd:
            written = 0
            while written < len(content):
                written += os.pwrite(fd, content[written:], written)
            os.ftruncate(fd, len(content))

    def state(self, path: Path) -> FileState | None:
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_folder = path.is_dir()
        return FileState(0 if is_folder else found.st_size, found.st_mtime_ns // 1_000_000, is_folder)

    def list(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _has_folder(self, path: Path) -> bool:
        return path.is_dir()

    def _create_folder(self, path: Path) -> bool:
        is_new = not path.is_dir()
        path.mkdir(exist_ok=True)
        return is_new

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_empty_folder(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.rmdir()

    def sync_file(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError), _opened(path, os.O_RDONLY) as fd:
            os.fdatasync(fd)  # on Linux this also writes pages dirtied through a shared mapping

    def sync_folder(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError), _opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            os.fsync(fd)

    def usage(self, path: Path) -> Usage:
        for there in (path, *path.parents):
            with contextlib.suppress(FileNotFoundError):
                return Usage(*shutil.disk_usage(there))
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    @contextlib.contextmanager
    def lock(self, path: Path, folders: Sequence[Path]) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            with unusable(path.parent):
                self.make_folder(path.parent)
            held.enter_context(hold_lock(path))
            for number, folder in enumerate(folders):
                with unusable(folder):
                    self.make_folder(folder)
                if not any(is_same(folder, other) for other in folders[:number]):
                    held.enter_context(hold_folder(folder))
            yield

    def boot_id(self) -> bytes:
        try:
            return BOOT_ID.read_bytes().strip()
        except OSError:
            return b""


REAL = RealDisk()


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def _address(mapped: mmap.mmap, position: int) -> int:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(mapped, position))


@lru_cache(maxsize=1)
def _madvise() -> Any:
    import ctypes

    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


@lru_cache(maxsize=1)
def _mincore() -> Any:
    """Called with the interpreter lock held: it is done before another thread could have run."""
    import ctypes

    function = ctypes.PyDLL(None).mincore
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return function


@lru_cache(maxsize=256)
def _char_array(length: int) -> Any:
    import ctypes

    return ctypes.c_char * length
