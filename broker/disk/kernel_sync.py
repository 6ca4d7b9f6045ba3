"""Syncs of files by the kernel's asynchronous I/O (io_submit with IOCB_CMD_FDSYNC, Linux 4.18).

A thread would do as well, but has to get the interpreter lock before and after: beside a busy event loop that
takes longer than the disk. The kernel reports the end of a sync over an eventfd.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import trio

from broker.disk.interface import CannotSync


class _Calls(NamedTuple):
    """Numbers of system calls, for which libc has no functions."""

    setup: int
    destroy: int
    get_events: int
    submit: int


_CALLS = {"x86_64": _Calls(206, 207, 208, 209), "aarch64": _Calls(0, 1, 4, 2)}
_REQUEST = struct.Struct("=QIIHhIQQqQII")
"""`struct iocb`: number, key, flags, operation, priority, descriptor, buffer, its size, offset, reserved, more
flags, eventfd."""
_EVENT = struct.Struct("=QQqq")
"""`struct io_event`: number, request, result, second result."""
_FDSYNC = 3
_WITH_EVENTFD = 1


class KernelSync:
    """Syncs one file after the other. OSError if the kernel has no such calls, or refuses them."""

    def __init__(self) -> None:
        calls = _CALLS.get(platform.machine())
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
        except OSError as error:  # an older kernel, or a file system without this
            raise CannotSync(f"{path}: {error.strerror}") from error
        with trio.CancelScope(shield=True):  # so that no sync finds the end of another
            await trio.lowlevel.wait_readable(self._eventfd)
        os.eventfd_read(self._eventfd)
        _call(self._calls.get_events, self._context, 1, 1, self._event, None)
        _, _, result, _ = _EVENT.unpack(self._event)
        if result:
            raise OSError(-result, os.strerror(-result), str(path))

    def close(self) -> None:
        """Free what the kernel holds. Blocks while a sync is under way."""
        _call(self._calls.destroy, self._context)
        os.close(self._eventfd)
        self._close_file()

    def _descriptor(self, path: Path) -> int:
        """Return a descriptor of the file that has this path now: another may have had it before."""
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
    """Return a KernelSync; None where the kernel has none."""
    try:
        return KernelSync()
    except OSError:
        return None


def _call(number: int, *arguments: Any) -> int:
    """Return the result of a system call; OSError if it fails."""
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
