"""The disk of this machine."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import shutil
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import trio

from rmqcli.broker.disk.interface import CannotSync, FileState, FileSync, MappedFile, Usage
from rmqcli.broker.disk.lock import hold_folder, hold_lock, is_same, unusable
from rmqcli.broker.disk.mapped import RealMappedFile, data_ranges, opened
from rmqcli.broker.disk.table_file import DurableFolders

# Syncs of files by the kernel's asynchronous I/O (io_submit with IOCB_CMD_FDSYNC, Linux 4.18).
#
# A thread would also work, but must get the interpreter lock before and after, which takes longer than the
# disk if the event loop is busy. The kernel reports the end of a sync over an eventfd.


class _Calls(NamedTuple):
    """Numbers of system calls for which libc has no functions."""

    setup: int
    destroy: int
    get_events: int
    submit: int


_CALLS = {"x86_64": _Calls(206, 207, 208, 209), "aarch64": _Calls(0, 1, 4, 2)}
_REQUEST = struct.Struct("=QIIHhIQQqQII")
"""`struct iocb`: number, key, flags, operation, priority, descriptor, buffer, its size, offset, reserved,
more flags, eventfd."""
_EVENT = struct.Struct("=QQqq")
"""`struct io_event`: number, request, result, second result."""
_FDSYNC = 3
_WITH_EVENTFD = 1


class KernelSync:
    """Syncs one file at a time by asynchronous I/O of the kernel. Raises OSError if the kernel does not have
    these calls, or refuses them."""

    def __init__(self) -> None:
        calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
        if calls is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._calls = calls
        self._context = ctypes.c_ulong(0)
        self._open: tuple[Path, int] | None = None
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._event = ctypes.create_string_buffer(_EVENT.size)
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            _call(calls.setup, 1, ctypes.byref(self._context))
        except OSError:
            os.close(self._eventfd)
            raise

    async def sync(self, path: Path) -> None:
        """See `FileSync.sync`."""
        try:
            descriptor = self._descriptor(path)
        except FileNotFoundError:
            return
        _REQUEST.pack_into(
            self._request, 0, 0, 0, 0, _FDSYNC, 0, descriptor, 0, 0, 0, 0, _WITH_EVENTFD, self._eventfd
        )
        try:
            _call(self._calls.submit, self._context, 1, self._requests)
        except OSError as error:  # an older kernel, or a file system without asynchronous sync
            raise CannotSync(f"{path}: {error.strerror}") from error
        with trio.CancelScope(shield=True):  # so that a later sync cannot read this one's result
            await trio.lowlevel.wait_readable(self._eventfd)
        os.eventfd_read(self._eventfd)
        _call(self._calls.get_events, self._context, 1, 1, self._event, None)
        _, _, result, _ = _EVENT.unpack(self._event)
        if result:
            raise OSError(-result, os.strerror(-result), str(path))

    def close(self) -> None:
        """Release the resources of the kernel. Blocks while a sync is in progress."""
        _call(self._calls.destroy, self._context)
        os.close(self._eventfd)
        self._close_file()

    def _descriptor(self, path: Path) -> int:
        """Return a descriptor of the current file at a path. The open one is kept unless it was unlinked: the
        path may then belong to a new file."""
        if self._open is not None:
            known, descriptor = self._open
            if known == path and os.fstat(descriptor).st_nlink:
                return descriptor
            self._close_file()
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._open = path, descriptor
        return descriptor

    def _close_file(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None


def open_kernel_sync() -> KernelSync | None:
    """Return a KernelSync; None if the kernel does not support it."""
    try:
        return KernelSync()
    except OSError:
        return None


def _call(number: int, *arguments: Any) -> int:
    """Return the result of a system call. Raises OSError if it fails."""
    # ctypes would pass Python ints as 32-bit C ints.
    longs = [ctypes.c_long(one) if isinstance(one, int) else one for one in (number, *arguments)]
    result: int = _syscall()(*longs)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


@lru_cache(maxsize=1)
def _syscall() -> Any:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function


_SYNC_FLAGS = os.O_RDONLY if sys.platform == "linux" else os.O_RDWR
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _sync_content(fd: int) -> None:
    """Sync the content of a file, pages dirtied through any shared mapping included."""
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        # fsync may leave such pages out.
        if size := os.fstat(fd).st_size:
            with mmap.mmap(fd, size) as pages:
                pages.flush()
        _sync(fd)


def _sync(fd: int) -> None:
    """Sync a file or folder. fsync of macOS leaves the data in the cache of the disk."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
        else:
            return
    os.fsync(fd)


_NO_FULL_SYNC = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL)
"""Errors of network file systems."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RealDisk(DurableFolders):
    """The operating system's files; see `Disk`."""

    def open_mapped(
        self, path: Path, size: int, *, may_create: bool = True, read_around: bool = True
    ) -> MappedFile:
        return RealMappedFile(path, size, may_create=may_create, read_around=read_around)

    def data_ranges(self, path: Path, position: int, size: int) -> Iterator[tuple[int, int]]:
        return data_ranges(path, position, size)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def read_part(self, path: Path, position: int, length: int) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, length, position)
        finally:
            os.close(fd)

    def write(self, path: Path, content: bytes, mode: int | None = None) -> None:
        with opened(path, os.O_RDWR | os.O_CREAT) as fd:
            if mode is not None:
                os.fchmod(fd, mode)
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
        size, mode = 0 if is_folder else found.st_size, stat.S_IMODE(found.st_mode)
        return FileState(size, found.st_mtime_ns // 1_000_000, is_folder, mode)

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
        with contextlib.suppress(FileNotFoundError), opened(path, _SYNC_FLAGS) as fd:
            _sync_content(fd)

    def file_sync(self) -> FileSync | None:
        return open_kernel_sync()

    def sync_folder(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError), opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            _sync(fd)

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
